package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
)

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
	return v.Value.Set(text) //nolint:wrapcheck // flagError explains it
}

// widenSwitches lets each switch of c and the commands below it take yes and no, as options do.
func widenSwitches(c *cobra.Command) {
	widen := func(f *pflag.Flag) {
		if f.Value.Type() == "bool" && !options.Registered(f) {
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
			return fmt.Errorf("%s takes its value after an equals sign: --%s=%s", word, f.Name, next)
		}
	}
	return nil
}
