package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

func (a *app) jobRemoveCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a job from the option file; its repository is kept",
		Long: `Removes the stanza of a job. Its repository and snapshots are kept. The job 'default' of an option file
without stanzas loses its
schedule only.`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.jobNames,
	}, func(ctx context.Context, args []string) error {
		kept := "the repository of the job is kept"
		if j, err := a.namedJob(args[0]); err == nil { // one that is not valid can be removed too
			kept = fmt.Sprintf("the repository %s and its snapshots are kept", human.Printable(j.Repository))
		}
		_, err := a.editOptions(ctx, func(e *job.Editor) (*optionfile.File, error) { return e.Remove(args[0]) })
		if err != nil {
			return err
		}
		a.print.Note(kept)
		return nil
	})
}
