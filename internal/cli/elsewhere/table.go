package elsewhere

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Row is a command, flag or environment variable of another program and its equivalent here.
type Row struct {
	Program string
	Theirs  string // "snapshot create", "--pack-size", "BORG_REPO"
	// "backup", "check --read-data", "--time", "TIDEMARK_REPOSITORY"; several are alternatives; none: no equivalent
	Ours []string
	Note string // what differs, or why there is no equivalent
	// Line is what to type: "backup --repo REPO PATHS", in capitals what was typed there. "A; B": A if it names an
	// archive, otherwise B.
	Line string
}

// Commands lists the commands of the other programs, including those with the same name here.
func Commands() []Row {
	return rows(map[string]string{"restic": resticCommands, "borg": borgCommands, "kopia": kopiaCommands,
		"tmutil": tmutilCommands, "dsmc": dsmcCommands})
}

// Flags lists flags of the other programs that have another name here, or none.
func Flags() []Row {
	return rows(map[string]string{"restic": resticFlags, "borg": borgFlags, "kopia": kopiaFlags, "tmutil": tmutilFlags})
}

// Variables lists environment variables of the other programs.
func Variables() []Row {
	return rows(map[string]string{"restic": resticVariables, "borg": borgVariables, "kopia": kopiaVariables,
		"dsmc": dsmcVariables})
}

// rows parses tables with lines "theirs | ours; alternative | note | line".
func rows(tables map[string]string) (all []Row) {
	for _, program := range []string{"restic", "borg", "kopia", "tmutil", "dsmc"} {
		for line := range strings.Lines(tables[program]) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if cells[0] == "" {
				continue
			}
			r := Row{Program: program, Theirs: cells[0]}
			if len(cells) > 1 && cells[1] != "" {
				r.Ours = strings.Split(cells[1], "; ")
			}
			if len(cells) > 2 {
				r.Note = cells[2]
			}
			if len(cells) > 3 {
				r.Line = cells[3]
			}
			all = append(all, r)
		}
	}
	return all
}

// Command explains the longest beginning of words, with at least the number of words that is given, that is a command
// of another program; "" if there is none. The other words may be arguments.
func Command(words []string, least int) string {
	all := Commands()
	for n := min(len(words), longest(all)); n >= least; n-- {
		if text := explain(all, strings.ToLower(strings.Join(words[:n], " ")), words[n:]); text != "" {
			return text
		}
	}
	return ""
}

// Arguments explains the arguments of a command that has the same name here, but takes others; "" if there is nothing
// to say.
func Arguments(words []string) string {
	all := slices.DeleteFunc(Commands(), func(r Row) bool { return r.Line == "" })
	for n := min(len(words)-1, longest(all)); n > 0; n-- {
		if text := explain(all, strings.Join(words[:n], " "), words[n:]); text != "" {
			return text
		}
	}
	return ""
}

// longest returns the number of words in the longest command.
func longest(all []Row) (n int) {
	for _, r := range all {
		n = max(n, 1+strings.Count(r.Theirs, " "))
	}
	return n
}

// Flag explains a flag, such as "--pack-size", of another program; "" if there is none.
func Flag(name string) string { return explain(Flags(), name, nil) }

// explain returns a sentence about the rows for a word: `"create" (borg): use 'tidemark backup'`. args follow the word.
func explain(all []Row, theirs string, args []string) string {
	var programs, answers []string
	for _, r := range all {
		if r.Theirs != theirs {
			continue
		}
		answer := r.answer(args)
		if i := slices.Index(answers, answer); i >= 0 {
			programs[i] += ", " + r.Program
			continue
		}
		programs, answers = append(programs, r.Program), append(answers, answer)
	}
	for i := range answers {
		answers[i] = "(" + programs[i] + "): " + answers[i]
	}
	if len(answers) == 0 {
		return ""
	}
	return fmt.Sprintf("%q %s", theirs, strings.Join(answers, "; "))
}

// IsPath reports whether an argument is a path or an archive of Borg, and so no password.
func IsPath(arg string) bool {
	return strings.Contains(arg, "::") || slices.ContainsFunc([]string{"/", "./", "../", "~/"},
		func(prefix string) bool { return strings.HasPrefix(arg, prefix) })
}

// fill returns the line to type in place of a command with arguments.
func (r *Row) fill(args []string) string {
	repository, archive := "", ""
	var paths []string
	for _, arg := range args {
		if at, name, found := strings.Cut(arg, "::"); found {
			repository, archive = at, name
		} else if r.Program != "kopia" || arg != "filesystem" {
			paths = append(paths, arg)
		}
	}
	line, other, two := strings.Cut(r.Line, "; ")
	if two && archive == "" {
		line = other
	}
	if repository == "" && len(paths) > 0 && IsPath(paths[0]) && !strings.Contains(line, "PATHS") {
		repository, paths = paths[0], paths[1:]
	}
	if r.Program == "borg" && archive == "" && len(paths) > 1 && !IsPath(paths[0]) {
		paths = paths[1:] // the name of the archive, in Borg 2
	}
	var words []string
	for word := range strings.FieldsSeq(line) {
		switch n := len(words); {
		case word == "REPO" && repository == "":
			words = words[:n-1]
		case word == "REPO":
			words = append(words, human.ShellWord(repository))
		case word == "PATHS" && len(paths) > 0:
			for _, path := range paths {
				words = append(words, human.ShellWord(path))
			}
		case word == "LAST" && len(paths) > 0:
			words = append(words, human.ShellWord(paths[len(paths)-1]))
		case word == "PATHS", word == "LAST":
			words = append(words, "DIR")
		default:
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// answer returns what to use in place of a command with arguments, or why there is no equivalent.
func (r *Row) answer(args []string) string {
	var quoted []string
	if r.Line != "" && len(args) > 0 {
		quoted = append(quoted, "'tidemark "+r.fill(args)+"'")
	}
	for _, ours := range r.Ours {
		if len(quoted) > 0 && r.Line != "" {
			break
		}
		if !strings.HasPrefix(ours, "-") {
			ours = "'tidemark " + ours + "'"
		}
		quoted = append(quoted, ours)
	}
	switch n := len(quoted); {
	case n == 0:
		return r.Note
	case n > 1:
		quoted = []string{strings.Join(quoted[:n-1], ", "), quoted[n-1]}
	}
	text := "use " + strings.Join(quoted, " or ")
	if r.Note != "" {
		text += ": " + r.Note
	}
	return text
}
