package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func (a *app) diffCommand() *cobra.Command {
	var metadata bool
	c := a.command(&cobra.Command{
		Use:   "diff [flags] SNAPSHOT[:/PATH] SNAPSHOT[:/PATH]",
		Short: "Show the differences between two snapshots",
		Long: `Shows the differences between two snapshots, or two directories in snapshots:

    +  added in the second      -  removed in the second
    T  type changed             M  content changed
    U  metadata changed (with --metadata)
    ?  content changed, size and times equal: damage, or on purpose

The last lines count what was added and removed. The data there is what only one of the two needs: each chunk and tree
is counted once (after deduplication), before compression.`,
		Example:           "  tidemark diff 1f3a latest",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.snapshotArgs(2),
	}, func(ctx context.Context, args []string) (err error) {
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		var trees, ids [2]format.ID
		for i, arg := range args {
			if ids[i], trees[i], err = a.treeOf(ctx, r, arg); err != nil {
				return err
			}
		}
		stats, err := browse.Diff(ctx, r, trees[0], trees[1], browse.DiffOptions{Metadata: metadata},
			func(c browse.Change) error { return a.print.Print(&output.Change{Change: c}) })
		if err != nil {
			return err
		}
		return a.print.Report(&output.DiffStats{From: ids[0], To: ids[1], Stats: stats})
	}, options.GroupPolicy)
	c.Flags().BoolVar(&metadata, "metadata", false,
		"also show objects that differ only in owner, mode, times or attributes")
	return c
}

// treeOf returns the root page of the directory that an argument names, and the snapshot's ID.
func (a *app) treeOf(ctx context.Context, r *repo.Repository, argument string) (id, page format.ID, err error) {
	found, sub, err := find(ctx, r, argument, repo.Filter{})
	if err != nil {
		return id, page, err
	}
	n, err := browse.Resolve(ctx, r, found.Snapshot.Tree, sub)
	if err != nil {
		return id, page, err
	}
	if n.Subtree.IsZero() {
		return id, page, usagef("%s: not a directory; name two directories or two snapshots", argument)
	}
	return found.ID, n.Subtree, nil
}
