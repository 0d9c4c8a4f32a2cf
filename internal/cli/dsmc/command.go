package dsmc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// ErrUsage: the command line is malformed, or has what is not supported.
var ErrUsage = errors.New("dsmc")

// Command is a parsed command line.
type Command struct {
	Name    string            // "incremental", "query backup"
	Args    []string          // file specifications
	Options map[string]string // options of this package by their full names; a switch has the value "yes"
	Flags   []string          // tidemark's flags
	Ignored []string          // options of IBM's client without effect here, in capitals

	Supported bool // it has an equivalent
}

// commands lists the commands; capitals are the shortest form of a word. Of several that fit the first one counts. A
// dash marks those without an equivalent; package elsewhere says what to use instead.
func commands() []string {
	return []string{
		"Incremental", "SELective", "REStore", "-RESTArt restore", "-RETrieve", "PREview Backup", "-PREview ARchive",
		"Query Backup", "Query Filespace", "Query SEssion", "Query Options", "Query INCLexcl", "-Query ACcess",
		"-Query ARchive", "-Query BACKUPSET", "-Query GRoup", "-Query IMage", "-Query Mgmtclass", "-Query Node",
		"-Query Restore", "Query SChedule", "-Query SYSTEMInfo", "-Query VM", "Help", "-ARchive", "-Backup GRoup",
		"-Backup IMage", "-Backup NAS", "-Backup VM", "-Cancel Process", "-Cancel Restore", "-Delete ACcess",
		"-Delete ARchive", "-Delete BACKup", "-Delete Filespace", "-Delete GRoup", "-EXPire", "-LOOP", "-MACRO",
		"-MONitor Process", "SCHedule", "-SET Access", "-SET Event", "-SET Password",
	}
}

// abbreviates reports whether text stands for a word whose shortest form is in capitals.
func abbreviates(text, word string) bool {
	shortest := strings.IndexFunc(word, func(r rune) bool { return r >= 'a' && r <= 'z' })
	if shortest < 0 {
		shortest = len(word)
	}
	return len(text) >= shortest && len(text) <= len(word) && strings.EqualFold(text, word[:len(text)])
}

// find finds the command at the beginning of words, and how many of them it has.
func (c *Command) find(words []string) int {
	for _, command := range commands() {
		command, without := strings.CutPrefix(command, "-")
		parts := strings.Fields(command)
		if len(words) < len(parts) {
			continue
		}
		fits := true
		for i, part := range parts {
			fits = fits && abbreviates(words[i], part)
		}
		if fits {
			c.Name, c.Supported = strings.ToLower(command), !without
			return len(parts)
		}
	}
	return 0
}

// option is one that this package translates.
type option struct {
	name     string // capitals are its shortest form
	commands string // the commands that take it
	value    bool   // it has a value
}

func ownOptions() []option {
	const backups, query, restore = "incremental selective preview backup", "query backup", "restore"
	return []option{
		{"SUbdir", backups + query + restore, true}, {"OPTFILE", "", true}, {"SErvername", "", true},
		{"FILELIst", backups, true}, {"ABSOLUTE", backups, false}, {"ASNODEname", backups, true},
		{"INActive", query + restore, false}, {"PIck", restore, false}, {"LATest", restore, false},
		{"PITDate", query + restore, true},
		{"PITTime", query + restore, true},
		{"FILESOnly", query + restore, false}, {"DIrsonly", query + restore, false},
		{"DATEformat", query + restore + "query filespace", true},
		{"REPlace", restore, true}, {"IFNewer", restore, false}, {"PRESERvepath", restore, true},
		{"VIRTUALNodename", query + restore + "query filespace query session", true},
	}
}

// refused lists options that change what a command does and have no equivalent.
func refused() []string {
	return []string{"PIck", "INCRBYDate", "SNAPSHOTRoot", "FROMDate", "FROMTime", "TODate", "TOTime", "BACKUPSETName",
		"FROMOwner",
		"FROMNode", "GROUPName", "IMAGETOfile", "DELetefiles", "INCRemental", "SNAPDiff", "JOURnal", "NOJournal", "MODE",
		"V2archive", "ARCHMc", "CLASS", "INActive", "LATest", "FILESOnly", "DIrsonly", "REPlace", "IFNewer", "PRESERvepath",
		"PITDate", "PITTime", "ABSOLUTE", "FILELIst", "SUbdir"}
}

// Parse reads a command line. The error wraps ErrUsage and never contains the value of an option.
func Parse(args []string) (*Command, error) {
	c := &Command{Options: map[string]string{}}
	var given []string
	for i, arg := range args {
		if arg == "--" { // what follows are file specifications
			c.Args = append(c.Args, args[i+1:]...)
			break
		}
		if strings.HasPrefix(arg, "-") && len(arg) > 1 {
			given = append(given, arg)
		} else {
			c.Args = append(c.Args, arg)
		}
	}
	if len(c.Args) == 0 && len(given) > 0 && abbreviates(strings.TrimLeft(given[0], "-?"), "Help") {
		c.Name, c.Supported = "help", true
		return c, nil
	}
	if len(c.Args) == 0 {
		return nil, fmt.Errorf("%w: name a command: there is no interactive mode; 'tidemark dsmc help' lists the commands",
			ErrUsage)
	}
	n := c.find(c.Args)
	if n == 0 {
		return nil, fmt.Errorf("%w: unknown command %q: 'tidemark dsmc help' lists the commands", ErrUsage,
			strings.Join(c.Args[:min(2, len(c.Args))], " "))
	}
	c.Args = c.Args[n:]
	for _, arg := range given {
		if err := c.option(arg); err != nil && c.Supported {
			return nil, err
		}
	}
	return c, nil
}

// option reads one option.
func (c *Command) option(arg string) error {
	if strings.HasPrefix(arg, "--") { // tidemark's own
		c.Flags = append(c.Flags, arg)
		return nil
	}
	word, value, valued := strings.Cut(arg[1:], "=")
	for _, o := range ownOptions() {
		if !abbreviates(word, o.name) || o.commands != "" && !strings.Contains(o.commands, c.Name) {
			continue
		}
		if valued != o.value || valued && value == "" {
			return fmt.Errorf("%w: -%s: write it as -%s%s", ErrUsage, word, strings.ToLower(o.name),
				map[bool]string{true: "=VALUE", false: " without a value"}[o.value])
		}
		if !valued {
			value = "yes"
		}
		if o.name == "SUbdir" {
			answers := map[string]string{"y": "yes", "yes": "yes", "n": "no", "no": "no"}
			if value = answers[strings.ToLower(value)]; value == "" {
				return fmt.Errorf("%w: -subdir: write yes or no", ErrUsage)
			}
		}
		c.Options[strings.ToLower(o.name)] = value
		return nil
	}
	for _, name := range refused() {
		if abbreviates(word, name) {
			return fmt.Errorf("%w: -%s is not supported by %s: leave it out", ErrUsage, strings.ToLower(name), c.Name)
		}
	}
	keyword, option, _ := options.Keyword(word)
	switch {
	case keyword == "":
		return fmt.Errorf("%w: unknown option -%s: 'tidemark dsmc help' lists the options", ErrUsage, word)
	case option == "":
		c.Ignored = append(c.Ignored, keyword)
	case valued:
		c.Flags = append(c.Flags, "--"+option+"="+value)
	default:
		c.Flags = append(c.Flags, "--"+option)
	}
	return nil
}
