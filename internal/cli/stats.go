package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func (a *app) statsCommand() *cobra.Command {
	var filter filterFlags
	var mode string
	c := a.command(&cobra.Command{
		Use:   "stats [flags] [SNAPSHOT...]",
		Short: "Count the contents and the size of snapshots",
		Long: `Counts the contents of the named snapshots, or of all:

    restore-size       file sizes as a restore of each snapshot would write them, summed
    files-by-contents  the same, with each different file content counted once
    raw-data           each chunk counted once: its size before compression, and as stored
    repository         all data in the repository, whether a snapshot needs it or not`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) (err error) {
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		list, err := a.selectSnapshots(ctx, r, args, filter.filter())
		if err != nil {
			return err
		}
		var trees []format.ID
		for _, s := range list {
			trees = append(trees, s.Snapshot.Tree)
		}
		stats, err := browse.Stats(ctx, r, browse.Mode(mode), trees)
		if errors.Is(err, browse.ErrMode) {
			return &usageError{err}
		}
		if err != nil {
			return err
		}
		return a.print.Print(&output.Stats{Statistics: stats})
	}, options.GroupPolicy)
	filter.register(c.Flags())
	c.Flags().StringVar(&mode, "mode", string(browse.RestoreSize),
		"what to count: restore-size, files-by-contents, raw-data or repository")
	return c
}
