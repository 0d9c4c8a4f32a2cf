package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/elsewhere"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// hintVariables reports environment variables of other backup programs that have an equivalent here which is not set.
// It prints names and never a value, once in a run.
func (a *app) hintVariables() {
	if a.hinted || a.spec == nil || a.spec.Output().Quiet || a.spec.Output().JSON {
		return
	}
	given := map[string]bool{}
	for _, e := range a.spec.Effective() {
		given[e.Name] = given[e.Name] || e.Origin != "default"
	}
	for _, name := range []string{"", "from-"} { // one source of the passphrase is enough
		for _, other := range []string{"password-file", "password-command", "key-file"} {
			given[name+"password"] = given[name+"password"] || given[name+other]
		}
		given[name+"password-file"] = given[name+"password"]
		given[name+"password-command"] = given[name+"password"]
	}
	var parts []string
	for _, row := range elsewhere.Variables() {
		value, _ := a.Env(row.Theirs)
		if value != "" && !given[options.OfVariable(row.Ours[0])] {
			parts = append(parts, fmt.Sprintf("%s is %s here", row.Theirs, row.Ours[0]))
		}
	}
	if len(parts) > 0 {
		a.hinted = true
		a.print.Note("hint: " + strings.Join(parts, ", "))
	}
}

// checkSpelling is misspelled for the arguments of the program. Completions are not checked.
func (a *app) checkSpelling(root *cobra.Command) error {
	if len(a.Args) == 0 || strings.HasPrefix(a.Args[0], cobra.ShellCompRequestCmd) {
		return nil
	}
	c, _, err := root.Find(a.Args)
	if err != nil || c.DisableFlagParsing {
		return nil //nolint:nilerr // cobra reports it
	}
	return misspelled(c, a.Args)
}

// misspelled returns a usage error for the first argument of c that is a long flag, or an option of IBM's client, with
// one dash. pflag would take its first letter for a flag and the rest for the value: "-r esourceutilization=5". The
// message contains no value, since it may be a password.
func misspelled(c *cobra.Command, args []string) error {
	c.InheritedFlags() // makes c.Flags() complete
	flags := c.Flags()
	var err error
	scan(flags, args, func(arg string, flag bool) bool {
		if !flag {
			return c.Name() != "run" || slices.Contains(commandWords(c), arg) // what follows belongs to the program
		}
		word, _, valued := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "--") || len(word) < 2 {
			return true
		}
		if spelled := doubleDash(flags, word); spelled != "" {
			err = usagef("-%s: write %s, with two dashes", word, spelled)
		} else if known, ours, hint := options.Keyword(word); known != "" && (valued || len(word) > 3) {
			switch {
			case ours != "":
				err = usagef("-%s: write --%s", word, ours)
			case hint != "":
				err = usagef("-%s: %s of IBM's client has no meaning here: %s", word, known, hint)
			default:
				err = usagef("-%s: %s of IBM's client has no meaning here: leave it out, or use 'tidemark dsmc'", word, known)
			}
		}
		return err == nil
	})
	return err
}

// doubleDash returns the flag whose long name is word, ignoring case and dashes; "" for none.
func doubleDash(flags *pflag.FlagSet, word string) (spelled string) {
	plain := func(text string) string { return strings.ToLower(strings.ReplaceAll(text, "-", "")) }
	flags.VisitAll(func(f *pflag.Flag) {
		if plain(f.Name) == plain(word) {
			spelled = "--" + f.Name
		}
	})
	return spelled
}

// scan calls visit for each argument in the way pflag reads them, without the values of flags, until visit returns
// false or an argument "--" ends the flags. Flags that are not in the set take no value.
func scan(flags *pflag.FlagSet, args []string, visit func(arg string, flag bool) bool) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		arg := args[i]
		flag := strings.HasPrefix(arg, "-") && arg != "-"
		if !visit(arg, flag) {
			return
		}
		if flag && takesNext(flags, arg) {
			i++
		}
	}
}

// takesNext reports whether the value of a flag is the next argument.
func takesNext(flags *pflag.FlagSet, arg string) bool {
	if name, long := strings.CutPrefix(arg, "--"); long {
		f := flags.Lookup(name)
		return f != nil && f.NoOptDefVal == ""
	}
	for i := 1; i < len(arg); i++ {
		f := flags.ShorthandLookup(arg[i : i+1])
		if f == nil {
			return false
		}
		if f.NoOptDefVal == "" {
			return i == len(arg)-1 // else the rest is the value
		}
	}
	return false
}

// commandWords returns the names that lead to c, without that of the program.
func commandWords(c *cobra.Command) []string { return strings.Fields(c.CommandPath())[1:] }

// words returns the arguments of c that are no flags, nor values of flags that it lacks. Arguments are those of the
// program.
func words(c *cobra.Command, args []string) (all []string) {
	c.InheritedFlags()
	before := "" // a flag that may have the word as its value
	scan(c.Flags(), args, func(arg string, flag bool) bool {
		path, kopia := strings.CutPrefix(arg, "--path=")
		switch {
		case kopia:
			all = append(all, path)
		case !flag && (before == "" || before == "--path" || len(all) == 0 || strings.Contains(arg, "::")):
			all = append(all, arg)
		}
		name := strings.TrimLeft(arg, "-")
		before = ""
		known := c.Flags().Lookup(name) != nil || len(name) == 1 && c.Flags().ShorthandLookup(name) != nil
		if flag && !known && !strings.Contains(arg, "=") {
			before = arg
		}
		return true
	})
	return all[min(len(all), len(commandWords(c))):]
}
