package cli

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/manual"
)

// manCommand is for those who package the program: it writes what is generated from the commands.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man {roff|markdown} DIR",
		Short:  "Write the manual: man pages, or docs/cli",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "roff":
				return manual.Write(c.Root(), args[1], manual.Roff)
			case "markdown":
				return manual.Write(c.Root(), args[1], manual.Markdown)
			}
			return usagef("form %q: choose roff or markdown", args[0])
		},
	}
}
