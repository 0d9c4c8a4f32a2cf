package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func (a *app) statsCommand() *cobra.Command {
	var filter repo.Filter
	var mode, cost string
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "stats [flags] [SNAPSHOT...]",
		Short: "Count the contents and the size of snapshots",
		Long: `Counts the contents of the named snapshots, or of all:

    restore-size       file sizes as a restore of each snapshot would write them, summed
    files-by-contents  the same, with each different file content counted once
    raw-data           each chunk counted once: its size before compression, and as stored
    unique             chunks that only the named snapshots need: what removing them and pruning all unused data frees
    repository         all data in the repository, whether a snapshot needs it or not

--cost says what the repository costs a month, and estimates what a backup that finds nothing changed, a check of all
data and a restore of all data cost. Prices are for 1,000 requests (put, get, delete), for a GB and month (stored), and
for a GB that is read (out).`,
		Example:           `  tidemark stats --cost put=0.005,get=0.0004,stored=0.023,out=0.09`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		var prices *browse.Prices
		if cost != "" {
			p, err := browse.ParsePrices(cost)
			if err != nil {
				return &usageError{err}
			}
			prices = &p
			if asked := c.Flags().Changed("mode"); asked && mode != string(browse.WholeRepository) {
				return usagef("--cost counts the whole repository: leave out --mode %s", mode)
			}
			mode = string(browse.WholeRepository)
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			list, err := a.selectSnapshots(ctx, r, args, filter)
			if err != nil {
				return err
			}
			var trees []format.ID
			for _, s := range list {
				trees = append(trees, s.Snapshot.Tree)
			}
			var stats *browse.Statistics
			if mode == string(browse.Unique) {
				stats, err = a.unique(ctx, r, list)
			} else {
				stats, err = browse.Stats(ctx, r, browse.Mode(mode), trees)
			}
			if errors.Is(err, browse.ErrMode) {
				return &usageError{err}
			}
			if err != nil {
				return err
			}
			return a.print.Print(output.Stats(stats, prices))
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().StringVar(&mode, "mode", string(browse.RestoreSize),
		"what to count: restore-size, files-by-contents, raw-data, unique or repository")
	c.Flags().StringVar(&cost, "cost", "", "prices of the provider; counts the whole repository")
	return c
}

// unique counts what no other snapshot than those of the list needs.
func (a *app) unique(ctx context.Context, r *repo.Repository, list []repo.Listed) (*browse.Statistics, error) {
	used, err := prune.Unique(ctx, r, prune.Options{Scratch: a.cacheFolder(r)}, idsOf(list))
	if err != nil {
		return nil, fmt.Errorf("find what only these snapshots use: %w", err)
	}
	return &browse.Statistics{Mode: browse.Unique, Snapshots: uint64(len(list)), Blobs: used.Blobs,
		Content: snapshot.Content{Bytes: used.Raw}, Stored: used.Stored}, nil
}
