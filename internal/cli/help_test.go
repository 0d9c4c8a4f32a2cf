package cli

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
)

// everyCommand calls do with each command that help lists.
func everyCommand(do func(*cobra.Command)) {
	a := &app{Process: Process{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		do(c)
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(a.tree())
}

func helpOf(t *testing.T, c *cobra.Command, width int, all bool) []string {
	var out bytes.Buffer
	require.NoError(t, help.Write(&out, c, width, all))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestHelpFitsAScreen(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		brief := helpOf(t, c, 80, false)
		require.LessOrEqual(t, len(brief), 40, "%s --help:\n%s", c.CommandPath(), strings.Join(brief, "\n"))
		for _, all := range []bool{false, true} {
			for _, line := range helpOf(t, c, 80, all) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), 80, "%s: %s", c.CommandPath(), line)
				require.Equal(t, strings.TrimRight(line, " "), line, c.CommandPath())
			}
		}
	})
}

// The long form has every flag and every command; the short form names the long one if it lacks any.
func TestLongHelpIsComplete(t *testing.T) {
	flagLine := regexp.MustCompile(`(?m)^  (?:-.,|   ) --(\S+)`)
	flagsOf := func(text string) (names []string) {
		for _, found := range flagLine.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		return names
	}
	everyCommand(func(c *cobra.Command) {
		brief := strings.Join(helpOf(t, c, 80, false), "\n")
		all := strings.Join(helpOf(t, c, 80, true), "\n")
		few, every, lacks := flagsOf(brief), flagsOf(all), false
		c.InheritedFlags()
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			require.Contains(t, every, f.Name, c.CommandPath())
			lacks = lacks || !slices.Contains(few, f.Name)
		})
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				require.Contains(t, all, "\n  "+sub.Name()+" ", c.CommandPath())
				require.Contains(t, brief, sub.Name(), c.CommandPath())
			}
		}
		if lacks {
			require.Contains(t, brief, c.CommandPath()+" --help --all")
		}
		require.NotContains(t, all, "--help --all", c.CommandPath())
	})
}
