package help_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/options"
)

func example() *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "Do things"}
	root.PersistentFlags().String("repo", "", "where; a folder of this machine")
	help.Topic(root.PersistentFlags(), options.TopicWhere, "repo")
	c := &cobra.Command{
		Use: "add [flags] FILE...", Short: "Add files", Run: func(*cobra.Command, []string) {},
		Long:    "Adds files that are\nnamed.\n    kept   as it is\n\nMore about it.",
		Example: "  prog add a\n  prog add b\n  prog add c",
	}
	c.Flags().BoolP("force", "f", false, "add always, even those files which are already there and did not change at all")
	c.Flags().Int("level", 3, "how much; 1 to 9")
	c.Flags().Bool("secret", false, "never listed")
	c.Flags().String("rare-one", "", "hardly ever needed")
	_ = c.Flags().MarkHidden("secret")
	help.Topic(c.Flags(), options.TopicHowFast, "level")
	help.Rare(c.Flags(), "rare-one")
	root.AddCommand(c)
	return c
}

func text(t *testing.T, c *cobra.Command, width int, all bool) string {
	var out bytes.Buffer
	require.NoError(t, help.Write(&out, c, width, all))
	return out.String()
}

func TestShortHelp(t *testing.T) {
	require.Equal(t, `Adds files that are named.
    kept   as it is

Usage: prog add [flags] FILE...

Examples:
  prog add a
  prog add b

What:
  -f, --force      add always, even those files which are
                   already there and did not change at all
Where:
      --repo TEXT  where
How fast:
      --level N    how much (default 3)

All flags and details: prog add --help --all
`, text(t, example(), 60, false))
}

func TestLongHelp(t *testing.T) {
	require.Equal(t, `Adds files that are named.
    kept   as it is

More about it.

Usage: prog add [flags] FILE...

Examples:
  prog add a
  prog add b
  prog add c

What:
  -f, --force          add always, even those files which are already there and did not change at all
      --rare-one TEXT  hardly ever needed

Where:
      --repo TEXT      where; a folder of this machine

How fast:
      --level N        how much; 1 to 9 (default 3)
`, text(t, example(), 110, true))
}

func TestWidthOfHelp(t *testing.T) {
	c := example()
	c.Long = strings.Repeat("word ", 100)
	for given, widest := range map[int]int{0: 40, 40: 40, 50: 50, 120: 120, 1000: 120} {
		line, _, _ := strings.Cut(text(t, c, given, false), "\n")
		require.LessOrEqual(t, len(line), widest)
		require.Greater(t, len(line), widest-5)
	}
}

// A group has its commands, those that are rare in one line.
func TestHelpOfAGroup(t *testing.T) {
	c := example()
	run := func(*cobra.Command, []string) {}
	c.Parent().AddCommand(&cobra.Command{Use: "odd", Short: "Do odd things", Run: run,
		Annotations: map[string]string{help.RareCommand: "yes"}},
		&cobra.Command{Use: "man", Short: "Write pages", Run: run, Hidden: true})
	short := text(t, c.Parent(), 80, false)
	require.Contains(t, short, "Commands:\n  add  Add files\n\nMore commands: odd\n\nAll flags")
	require.NotContains(t, short, "--repo", "no flag of all commands")
	long := text(t, c.Parent(), 80, true)
	require.Contains(t, long, "  odd  Do odd things\n")
	require.Contains(t, long, "--repo TEXT")
	require.NotContains(t, long, "  man")
}
