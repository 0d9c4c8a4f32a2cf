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
		Short: "Count what snapshots hold and what they take",
		Long: `Counts what is in the snapshots that are named, or in all:

  restore-size       what a restore of each would write, summed
  files-by-contents  different contents of files
  raw-data           different pieces of data, and what they take in the repository
  repository         everything in the repository, whatever needs it`,
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
