package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
)

func (a *app) snapshotsCommand() *cobra.Command {
	var filter repo.Filter
	var latest int
	var groupBy string
	var compact, forgotten bool
	c := a.command(&cobra.Command{
		Use:   "snapshots [flags] [SNAPSHOT...]",
		Short: "List the snapshots",
		Long: `Lists the snapshots. Commands take as SNAPSHOT the beginning of an ID; latest, or latest~2 for the second one
before it; the newest of a day, as 2026-11-20, "last tuesday" or "3 days ago"; or the latest at a moment, as
"yesterday 14:00". A path in it follows after a colon: latest:/home/ann. forget takes IDs only.

A snapshot that is dated in the future, since a clock was wrong, counts as of its storage.`,
		Example: `  tidemark snapshots --latest 1
  tidemark snapshots --host nas --group-by tags
  tidemark snapshots --forgotten`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.snapshotArgs(-1),
	}, func(ctx context.Context, args []string) error {
		if latest < 0 {
			return usagef("--latest %d: write a number, 1 or more", latest)
		}
		by, err := parseGroupBy(groupBy)
		if err != nil {
			return err
		}
		if forgotten && len(args) > 0 {
			return usagef("--forgotten lists all forgotten snapshots: leave out the IDs")
		}
		list, proven, err := a.listSnapshots(ctx, args, filter, forgotten)
		if err != nil {
			return err
		}
		if !forgotten {
			a.warnFuture(list, time.Now())
		}
		groups := groupSnapshots(list, by)
		for i := range groups {
			groups[i].Compact = compact
		}
		if latest > 0 {
			groups = newestOfEach(groups, latest)
		}
		if len(groups) == 0 {
			groups = []output.Snapshots{{}}
		}
		for i := range groups {
			if err := a.print.Print(&groups[i]); err != nil {
				return err
			}
		}
		return a.print.Report(output.Proven(&proven))
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().IntVar(&latest, "latest", 0, "only the newest n of each host and set of paths")
	c.Flags().StringVarP(&groupBy, "group-by", "g", "", "one table per host, paths, tags (a list of these words)")
	c.Flags().BoolVar(&forgotten, "forgotten", false,
		"list forgotten ones, which 'tidemark forget --undo ID' brings back until a prune removes their data")
	c.Flags().BoolVarP(&compact, "compact", "c", false, "omit paths and sizes")
	a.pastFlag(c)
	return c
}

// warnFuture warns of snapshots that a wrong clock dated.
func (a *app) warnFuture(list []repo.Listed, now time.Time) {
	for _, l := range list {
		if l.FromFuture(now) {
			a.print.Note(fmt.Sprintf("warning: snapshot %s is dated in the future, since a clock was wrong: it counts as of "+
				"%s, when it was stored, and a policy never removes it: 'tidemark forget %s' does", l.ID.Short(),
				l.Stored.Local().Format(time.DateTime), l.ID.Short()))
		}
	}
}

// listSnapshots returns those that are named, or all that pass the filter, and what checks on this machine have proven.
func (a *app) listSnapshots(ctx context.Context, refs []string, filter repo.Filter, forgotten bool) (
	list []repo.Listed, proven proofs.Summary, err error,
) {
	r, err := a.open(ctx)
	if err != nil {
		return nil, proven, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if forgotten {
		all, err := rewrite.Forgotten(ctx, r)
		for _, l := range all {
			if filter.Match(l.Snapshot) {
				list = append(list, l)
			}
		}
		return list, proven, err
	}
	if folder := a.cacheFolder(r); folder != "" {
		if proven, err = proofs.ReadSummary(folder); err != nil {
			a.print.Note(err.Error())
		}
	}
	list, err = a.selectSnapshots(ctx, r, refs, filter)
	return list, proven, err
}

// parseGroupBy reads a list of the words host, paths and tags.
func parseGroupBy(text string) (by []string, err error) {
	for word := range strings.SplitSeq(text, ",") {
		switch strings.TrimSuffix(word, "s") {
		case "host":
			by = append(by, "host")
		case "path":
			by = append(by, "paths")
		case "tag":
			by = append(by, "tags")
		default:
			if word == "" {
				continue
			}
			return nil, usagef("--group-by %q: choose from host, paths and tags", word)
		}
	}
	return by, nil
}

// groupSnapshots splits a list by keys, keeps its order, and gives each group a title that is safe to print.
func groupSnapshots(list []repo.Listed, by []string) []output.Snapshots {
	var groups []output.Snapshots
	at := map[string]int{}
	for _, s := range list {
		var titles []string
		key := ""
		for _, word := range by {
			values := map[string][]string{"host": {s.Snapshot.Host}, "paths": slices.Sorted(slices.Values(s.Snapshot.Asked())),
				"tags": slices.Sorted(slices.Values(s.Snapshot.Tags))}[word]
			key += fmt.Sprintf("%q", values) // quoted: "/x, /y" is one path or two
			for i := range values {
				values[i] = human.Printable(values[i])
			}
			titles = append(titles, word+" "+strings.Join(values, ", "))
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, output.Snapshots{Heading: strings.Join(titles, "; ")})
		}
		groups[i].List = append(groups[i].List, s)
	}
	return groups
}

// newestOfEach keeps the last n of each machine and set of paths.
func newestOfEach(groups []output.Snapshots, n int) []output.Snapshots {
	for i := range groups {
		left := map[string]int{}
		var kept []repo.Listed
		for _, s := range slices.Backward(groups[i].List) {
			key := fmt.Sprintf("%q %q", s.Snapshot.Host, slices.Sorted(slices.Values(s.Snapshot.Asked())))
			if left[key]++; left[key] <= n {
				kept = append(kept, s)
			}
		}
		slices.Reverse(kept)
		groups[i].List = kept
	}
	return groups
}
