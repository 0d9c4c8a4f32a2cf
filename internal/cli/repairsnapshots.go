package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
)

func (a *app) repairSnapshotsCommand() *cobra.Command {
	var dry, drop bool
	c := a.command(&cobra.Command{
		Use:   "snapshots [flags]",
		Short: "Replace snapshots that lost files",
		Long: `Searches all snapshots for lost data, and replaces each affected snapshot by a new one with the same time,
host, tags and paths. In the new snapshot lost files keep their names and are marked as not readable; everything else is
unchanged. Readable data of damaged packs is stored again. The original is removed only after the new snapshot was read
back.

A snapshot that cannot be read at all stays unless --drop is given. Run 'tidemark backup' of every source first: data
that it stores again is not lost.`,
		Example: `  tidemark repair snapshots --dry-run
  tidemark repair snapshots --drop`,
	}, func(ctx context.Context, _ []string) error {
		return a.repairing(ctx, dry, func(r *repo.Repository, opt repair.Options) error {
			res, err := repair.Snapshots(ctx, r, repair.SnapshotOptions{Options: opt, Drop: drop})
			for _, loss := range res.Losses.List {
				err = errors.Join(err, a.print.Print(&output.Loss{Loss: loss}))
			}
			err = errors.Join(err, a.print.Print(&output.RepairedSnapshots{SnapshotsResult: res, DryRun: dry}))
			if err == nil && slices.ContainsFunc(res.Replaced, func(s repair.Replaced) bool { return s.Kept }) {
				err = errors.New("some snapshots cannot be read at all: remove them with 'tidemark repair snapshots --drop'")
			}
			return err
		})
	}, options.GroupPolicy, options.GroupCompression)
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "change nothing, only report what would be done")
	c.Flags().BoolVar(&drop, "drop", false, "remove snapshots that cannot be read at all")
	return c
}
