package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/grouping"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
)

func (a *app) snapshotsCommand() *cobra.Command {
	var filter filterFlags
	var latest int
	var groupBy string
	var compact bool
	c := a.command(&cobra.Command{
		Use:   "snapshots [flags] [SNAPSHOT...]",
		Short: "List the snapshots",
		Example: `  tidemark snapshots --latest 1
  tidemark snapshots --host nas --group-by tags`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		if latest < 0 {
			return usagef("--latest %d: write how many of the newest to list", latest)
		}
		by, err := grouping.Parse(groupBy)
		if err != nil {
			return &usageError{err}
		}
		list, err := a.listSnapshots(ctx, args, filter.filter())
		if err != nil {
			return err
		}
		groups := grouping.Split(list, by)
		for i := range groups {
			groups[i].Compact = compact
		}
		if latest > 0 {
			groups = grouping.Newest(groups, latest)
		}
		if len(groups) == 0 {
			groups = []output.Snapshots{{}}
		}
		for i := range groups {
			if err := a.print.Print(&groups[i]); err != nil {
				return err
			}
		}
		return nil
	}, options.GroupPolicy)
	filter.register(c.Flags())
	c.Flags().IntVar(&latest, "latest", 0, "only the newest n of each machine and set of paths")
	c.Flags().StringVarP(&groupBy, "group-by", "g", "", "a table for each host, paths, tags (a list of these words)")
	c.Flags().BoolVarP(&compact, "compact", "c", false, "leave out paths and sizes")
	return c
}

// listSnapshots returns those that are named, or all that pass the filter.
func (a *app) listSnapshots(ctx context.Context, refs []string, filter repo.Filter) (list []output.Snapshot, err error) {
	r, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return a.selectSnapshots(ctx, r, refs, filter)
}
