package cli

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repo"
)

// reread reads the unchanged files that are due, after the snapshot was saved and reported. Errors are only noted,
// since the backup is complete.
func (a *app) reread(ctx context.Context, r *repo.Repository, job *backup.Job, out *backup.Outcome,
	all bool) error {
	a.governor.Yield()
	defer a.governor.Brief(true) // the user waits for the repository to be closed
	opt := backup.RereadOptions{Days: a.spec.Reading().RereadDays, All: all}
	again, err := backup.RereadShare(ctx, r, job, out, opt)
	if err != nil && ctx.Err() == nil {
		a.print.Note(err.Error())
	}
	if again == nil || again.Files == 0 {
		if all {
			a.print.Note("--force-reread: nothing was read again, since there is no new snapshot of files, no file is " +
				"unchanged, or no cache is used")
		}
		return nil
	}
	record := &output.Reread{Reread: again}
	if len(again.Differing)+len(again.Unreadable) > 0 {
		return a.print.Print(record)
	}
	return a.print.Report(record)
}
