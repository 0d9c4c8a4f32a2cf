package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/elsewhere"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// unknownCommand returns the usage error for a command that does not exist below c. args has at least its name.
func unknownCommand(c *cobra.Command, args []string) error {
	name := args[0]
	if err := checkLocalArguments(c, args[:1]); err != nil {
		return err
	}
	path := commandWords(c)
	if theirs := elsewhere.Command(slices.Concat(path, args), len(path)+1); theirs != "" {
		return usagef("unknown command %s", theirs)
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q: did you mean %s?", name, strings.Join(near, " or "))
	}
	return usagef("unknown command %q; see '%s --help'", name, c.CommandPath())
}

// groupCommand returns a command that only groups others; without the name of one of them it is a usage error.
func groupCommand(c *cobra.Command, choices string, commands ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args)
		}
		return usagef("choose %s; see '%s --help'", choices, c.CommandPath())
	}
	c.AddCommand(commands...)
	return c
}

// noArguments is cobra.NoArgs with a message that fits a command without subcommands.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("takes no arguments, but %q was given", args[0])
	}
	return nil
}

// arguments checks the number of arguments; most 0: any. Of the usage line, the n-th word names the n-th argument.
func arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch n := len(args); {
		case most > 0 && n > most:
			return fmt.Errorf("%q is one argument too many", args[most])
		case n < least:
			return fmt.Errorf("%s is missing", argumentNames(c.Use)[n])
		}
		return nil
	}
}

// argumentNames returns the words of a usage line that name arguments.
func argumentNames(use string) (names []string) {
	value := false // of a flag
	for _, word := range strings.Fields(use)[1:] {
		flag := strings.HasPrefix(word, "--")
		if !flag && !value && word != "[flags]" {
			names = append(names, strings.TrimSuffix(word, "..."))
		}
		value = flag
	}
	return names
}

// argumentError returns the usage error for arguments that check refuses, nil for others.
func argumentError(c *cobra.Command, check cobra.PositionalArgs, args []string) error {
	err := check(c, args)
	if i := slices.Index(args, ""); err == nil && i >= 0 && c.Annotations[takesAddress] == "" {
		err = fmt.Errorf("argument %d is empty", i+1)
	}
	archive := slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "::") })
	if archive || err != nil && (len(args) > 1 || slices.ContainsFunc(args, elsewhere.IsPath)) {
		if theirs := elsewhere.Arguments(slices.Concat(commandWords(c), args)); theirs != "" {
			return usagef("%s", theirs)
		}
	}
	if err != nil {
		return usagef("%s: %w; see '%s --help'", c.UseLine(), err, c.CommandPath())
	}
	return nil
}

// commandsWith returns the commands that have a flag: none if more than two do.
func (a *app) commandsWith(name string) (all []string) {
	for _, c := range a.tree().Commands() {
		if c.LocalNonPersistentFlags().Lookup(name) != nil {
			all = append(all, c.CommandPath())
		}
	}
	if len(all) > 2 {
		return nil
	}
	return all
}

// flagCalled names the flag of a command that people call by another name; "" if there is none.
func flagCalled(c *cobra.Command, name string) string {
	ours := map[string]string{
		"passphrase-file": "password-file", "recovery-key-file": "password-file", "from": "from-repo", "to": "target",
	}[name]
	if c.Name() == "copy" && name == "to" {
		ours = "repo"
	}
	if c.Flags().Lookup(ours) == nil {
		return ""
	}
	return "--" + ours
}

// flagError explains an error of pflag: it suggests a flag with a similar name or the equivalent of another program's
// flag, and replaces the messages of package strconv. An unknown command is reported before its flags.
func (a *app) flagError(c *cobra.Command, err error) error {
	if named := words(c, a.Args); c.HasSubCommands() && len(named) > 0 {
		return unknownCommand(c, named)
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		if theirs := elsewhere.Flag("--" + unknown.GetSpecifiedName()); theirs != "" {
			return usagef("unknown flag %s", theirs)
		}
		name := unknown.GetSpecifiedName()
		if called := flagCalled(c, name); called != "" {
			return usagef("unknown flag: --%s: did you mean %s?", name, called)
		}
		if others := a.commandsWith(name); len(others) > 0 {
			return usagef("unknown flag: --%s: it is one of '%s'", name, strings.Join(others, "' and '"))
		}
		flags := &cobra.Command{SuggestionsMinimumDistance: 2} // one subcommand per flag: cobra suggests commands only
		c.Flags().VisitAll(func(f *pflag.Flag) {
			flags.AddCommand(&cobra.Command{Use: "--" + f.Name, Hidden: f.Hidden, Run: func(*cobra.Command, []string) {}})
		})
		if near := flags.SuggestionsFor("--" + name); len(near) > 0 {
			return usagef("unknown flag: --%s: did you mean %s?", name, strings.Join(near, " or "))
		}
	case errors.As(err, &unknown):
		if theirs := elsewhere.Flag("-" + unknown.GetSpecifiedShortnames()[:1]); theirs != "" {
			return usagef("unknown flag %s", theirs)
		}
	case errors.As(err, &invalid) && errors.As(err, &number):
		write := "write a whole number"
		switch f := invalid.GetFlag(); {
		case f.Value.Type() == "bool":
			write = "write yes or no, or nothing"
		case f.Value.Type() == "float64":
			write = "write a number"
		case errors.Is(number, strconv.ErrRange):
			write = "write a smaller number"
		}
		return usagef("--%s %q: %s; see '%s --help'", invalid.GetFlag().Name, invalid.GetValue(), write, c.CommandPath())
	}
	return usagef("%w; see '%s --help'", err, c.CommandPath())
}

// switchWords are the values of a switch, as in the option file.
func switchWords() map[string]bool {
	return map[string]bool{"yes": true, "on": true, "true": true, "no": false, "off": false, "false": false}
}

// switchValue is the value of a switch that is no option. It takes the words that options take.
type switchValue struct{ pflag.Value }

// Set implements pflag.Value.
func (v switchValue) Set(text string) error {
	if on, ok := switchWords()[strings.ToLower(text)]; ok {
		text = strconv.FormatBool(on)
	}
	return v.Value.Set(text)
}

// widenSwitches lets each switch of c and the commands below it take yes and no, as options do.
func widenSwitches(c *cobra.Command) {
	widen := func(f *pflag.Flag) {
		if f.Value.Type() == "bool" && options.GroupOf(f) == "" {
			f.Value = switchValue{f.Value}
		}
	}
	c.Flags().VisitAll(widen)
	for _, below := range c.Commands() {
		widenSwitches(below)
	}
}

// checkSwitchWords refuses an argument such as yes that directly follows a switch and is no path: it was meant as the
// value of the switch. given is the whole command line.
func checkSwitchWords(c *cobra.Command, given, args []string) error {
	for i, word := range given[:max(0, len(given)-1)] {
		if word == "--" {
			return nil
		}
		next := given[i+1]
		_, isWord := switchWords()[strings.ToLower(next)]
		name, long := strings.CutPrefix(word, "--")
		f := c.Flags().Lookup(name)
		if short, ok := strings.CutPrefix(word, "-"); !long && ok && len(short) == 1 {
			f = c.Flags().ShorthandLookup(short)
		}
		if !isWord || f == nil || f.Value.Type() != "bool" || !slices.Contains(args, next) {
			continue
		}
		if _, err := os.Lstat(next); missing(err) {
			return usagef("%s takes its value after an equals sign: --%s=%s", word, f.Name, next)
		}
	}
	return nil
}
