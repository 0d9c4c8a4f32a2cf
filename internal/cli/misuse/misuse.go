// Package misuse says what is wrong with a command line, and what may have been meant, in words that name no function of a
// library. It refuses to know what commands and options do.
package misuse

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// distance is how many letters may be wrong in a word for it to be recognised.
const distance = 2

// like returns those of the words that one which does not exist may stand for, as a question; "" if there are none.
func like(word string, words []string) string {
	near := &cobra.Command{SuggestionsMinimumDistance: distance}
	for _, w := range words {
		near.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	if found := near.SuggestionsFor(word); len(found) > 0 {
		return "did you mean " + strings.Join(found, " or ") + "?"
	}
	return ""
}

// Command says that there is no command of that name beneath c.
func Command(c *cobra.Command, name string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	switch meant := like(name, names); {
	case meant != "":
		return fmt.Errorf("unknown command %q: %s", name, meant)
	case len(names) == 0:
		return fmt.Errorf("'%s' has no commands of its own, such as %q; see '%s --help'", c.CommandPath(), name, c.CommandPath())
	case c.HasParent():
		return fmt.Errorf("unknown command %q: '%s' has %s; see '%s --help'", name, c.CommandPath(), strings.Join(names, ", "),
			c.CommandPath())
	}
	return fmt.Errorf("unknown command %q; see '%s --help'", name, c.CommandPath())
}

// Arguments says why the arguments are not those that check asks for; nil if they are.
func Arguments(c *cobra.Command, check cobra.PositionalArgs, args []string) error {
	err := check(c, args)
	if err == nil {
		return nil
	}
	what := err.Error()
	for n := len(args) - 1; n >= 0; n-- {
		if check(c, args[:n]) == nil {
			what = fmt.Sprintf("the argument %q is one too many", args[n])
			break
		}
	}
	if few := append(args[:len(args):len(args)], "x"); check(c, few) == nil || check(c, append(few, "x")) == nil {
		what = "an argument is missing"
	}
	return fmt.Errorf("%s: %s; see '%s --help'", what, c.UseLine(), c.CommandPath())
}

// Flag says what is wrong with an option of c.
func Flag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if meant := like(unknown.GetSpecifiedName(), names); meant != "" {
			return fmt.Errorf("unknown flag: --%s: %s", unknown.GetSpecifiedName(), strings.ReplaceAll(
				strings.Replace(meant, "mean ", "mean --", 1), " or ", " or --"))
		}
	case errors.As(err, &invalid) && errors.As(err, &number):
		write := "write a whole number"
		switch f := invalid.GetFlag(); {
		case f.Value.Type() == "bool":
			write = "write true or false, or nothing"
		case f.Value.Type() == "float64":
			write = "write a number"
		case errors.Is(number, strconv.ErrRange):
			write = "write a smaller number"
		}
		return fmt.Errorf("--%s %q: %s; see '%s --help'", invalid.GetFlag().Name, invalid.GetValue(), write, c.CommandPath())
	}
	return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
}
