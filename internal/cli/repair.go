package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

func (a *app) repairCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "repair",
		Short: "Repair a damaged repository",
		Long: `Repairs damage that 'tidemark check' finds. First restore the damaged files from a copy of the repository if
there is one, and run 'tidemark backup' of every source: it stores again everything that still exists. That recovers the
most. Then use:

    tidemark repair index      when the index is damaged or lacks packs
    tidemark repair packs      to save what is readable in damaged packs, and to list the lost files
    tidemark repair snapshots  to replace snapshots that lost files by copies without those files

Each can be interrupted at any time, can run beside backups, and has --dry-run.`,
	}, "index, packs or snapshots", a.repairIndexCommand(), a.repairPacksCommand(), a.repairSnapshotsCommand())
}

// repairing runs a repair on the repository, with a ledger that counts the transfer.
func (a *app) repairing(ctx context.Context, dryRun bool, do func(*repo.Repository, repair.Options) error) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		l := report.NewJob(report.Check, time.Now)
		a.place.Intake.Attach(l)
		return do(r, repair.Options{DryRun: dryRun, Note: a.print.Note, Session: repo.SessionOptions{
			Holder: repo.Holder{Host: hostName()}, Level: level(a.spec.Compression().Level),
			Observer: &observer{ledger: l, note: a.print.Note},
		}})
	})
}

// printLosses prints each lost object, and returns an error if there is one.
func (a *app) printLosses(losses *repair.Losses, advice string) error {
	for _, loss := range losses.List {
		if err := a.print.Print(&output.Loss{Loss: loss}); err != nil {
			return err
		}
	}
	if losses.Count() == 0 {
		return nil
	}
	return fmt.Errorf("%s of snapshots %s lost: %s", human.Plural(losses.Count(), "object"),
		areOrIs(losses.Count()), advice)
}

func areOrIs(n uint64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
