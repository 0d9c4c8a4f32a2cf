package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
)

func (a *app) optionsCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "options",
		Short: "Print the options in effect and where each comes from",
		Long: `Prints every option with its value and its origin: a flag, the environment, a line of the option file, or the
default. Flags override the environment, and the environment overrides the file. Secrets are not shown.`,
	}, func(context.Context, []string) error {
		a.hintVariables()
		// Rules are options too: report malformed ones.
		_, warnings, err := a.spec.Rules(os.ReadFile, a.Env)
		a.warn(warnings)
		if err != nil {
			return &usageError{err}
		}
		return a.print.Print(output.Options(a.spec.Effective(), a.spec.File()))
	}, append(backupGroups(), options.GroupFrom)...)
}
