package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
)

func (a *app) jobShowCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a job: its next five times and its options with their origins",
		Long: `Shows the options of a job that are set, and those of the service. The times are those of the schedule: a run
starts up to
--jitter later, and waits for its conditions.`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.jobNames,
	}, func(_ context.Context, args []string) error {
		j, err := a.namedJob(args[0])
		if err != nil {
			return err
		}
		return a.print.Print(&output.DefinedJob{Job: j, Now: time.Now()})
	})
}
