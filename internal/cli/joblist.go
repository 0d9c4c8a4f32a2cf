package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
)

func (a *app) jobListCommand() *cobra.Command {
	return lenient(a.command(&cobra.Command{
		Use:   "list",
		Short: "List the jobs of the option file with their next times",
	}, func(context.Context, []string) error {
		all, invalid, file, err := a.definedJobs()
		if err != nil {
			return err
		}
		return a.print.Print(&output.DefinedJobs{List: all, Invalid: invalid, File: file, Now: time.Now()})
	}))
}
