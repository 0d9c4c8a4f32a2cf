package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
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
		by, err := parseGrouping(groupBy)
		if err != nil {
			return err
		}
		list, err := a.listSnapshots(ctx, args, filter.filter())
		if err != nil {
			return err
		}
		groups := group(list, by)
		for i := range groups {
			groups[i].Compact = compact
		}
		if latest > 0 {
			groups = newest(groups, latest)
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

// keyer is a part of a snapshot that it is grouped by.
type keyer struct {
	word string
	key  func(*snapshot.Snapshot) string
}

func keyers() []keyer {
	return []keyer{
		{"host", func(s *snapshot.Snapshot) string { return s.Host }},
		{"paths", func(s *snapshot.Snapshot) string { return strings.Join(slices.Sorted(slices.Values(s.Sources)), ", ") }},
		{"tags", func(s *snapshot.Snapshot) string { return strings.Join(slices.Sorted(slices.Values(s.Tags)), ", ") }},
	}
}

func parseGrouping(text string) ([]keyer, error) {
	var by []keyer
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		i := slices.IndexFunc(keyers(), func(k keyer) bool { return strings.TrimSuffix(k.word, "s") == strings.TrimSuffix(word, "s") })
		if i < 0 {
			return nil, usagef("--group-by %q: choose from host, paths and tags", word)
		}
		by = append(by, keyers()[i])
	}
	return by, nil
}

// group splits a list, keeping its order, and titles the parts.
func group(list []output.Snapshot, by []keyer) []output.Snapshots {
	var groups []output.Snapshots
	at := map[string]int{}
	for _, s := range list {
		var parts []string
		for _, k := range by {
			parts = append(parts, k.word+" "+k.key(s.Snapshot))
		}
		title := strings.Join(parts, "; ")
		i, ok := at[title]
		if !ok {
			i = len(groups)
			at[title] = i
			groups = append(groups, output.Snapshots{Heading: title})
		}
		groups[i].List = append(groups[i].List, s)
	}
	return groups
}

// newest keeps the last n of each machine and set of paths.
func newest(groups []output.Snapshots, n int) []output.Snapshots {
	for i := range groups {
		left := map[string]int{}
		var kept []output.Snapshot
		for _, s := range slices.Backward(groups[i].List) {
			key := s.Snapshot.Host + "\x00" + keyers()[1].key(s.Snapshot)
			if left[key]++; left[key] <= n {
				kept = append(kept, s)
			}
		}
		slices.Reverse(kept)
		groups[i].List = kept
	}
	return groups
}
