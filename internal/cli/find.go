package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

type findFlags struct {
	filter         repo.Filter
	snapshots      []string
	fold, long     bool
	oldest, newest string
	blobs          bool
}

func (f *findFlags) register(flags *pflag.FlagSet) {
	filterFlags(flags, &f.filter)
	flags.StringArrayVarP(&f.snapshots, "snapshot", "s", nil, "search only this snapshot; repeatable")
	flags.BoolVarP(&f.fold, "ignore-case", "i", false, "ignore upper and lower case")
	flags.BoolVarP(&f.long, "long", "l", false, "show mode, owners, size and time")
	flags.StringVarP(&f.oldest, "oldest", "O", "", "only objects modified at this time or later")
	flags.StringVarP(&f.newest, "newest", "N", "", "only objects modified at this time or earlier")
	flags.BoolVar(&f.blobs, "blob", false, "the arguments are blob IDs: find the objects that use them")
}

func (f *findFlags) query(args []string) (browse.Query, error) {
	q := browse.Query{IgnoreCase: f.fold}
	if slices.Contains(f.snapshots, "") {
		return q, usagef("--snapshot is empty: name a snapshot, or leave it out to search all")
	}
	for _, bound := range []struct {
		text string
		to   **tree.Time
	}{{f.oldest, &q.Newer}, {f.newest, &q.Older}} {
		if bound.text == "" {
			continue
		}
		at, err := parseTime(bound.text)
		if err != nil {
			return q, err
		}
		moment := tree.TimeOf(at)
		*bound.to = &moment
	}
	if !f.blobs {
		q.Patterns = args
		return q, nil
	}
	for _, text := range args {
		id, err := format.ParseID(text)
		if err != nil {
			return q, usagef("--blob %s: %w", text, err)
		}
		q.IDs = append(q.IDs, id)
	}
	return q, nil
}

func (a *app) findCommand() *cobra.Command {
	f := &findFlags{}
	c := a.command(&cobra.Command{
		Use:   "find [flags] PATTERN...",
		Short: "Find files in snapshots by name",
		Long: `Finds objects whose name matches one of the patterns, in all snapshots or in selected ones. A pattern with a
slash is matched against the end of the path; a pattern that starts with a slash, against the whole path. ** matches any
number of names.`,
		Example: `  tidemark find '*.key'
  tidemark find --snapshot latest --newest 2024-12-31 /home/ann/**/report.odt`,
		Args: arguments(1, 0),
	}, func(ctx context.Context, args []string) error { return a.find(ctx, f, args) }, options.GroupPolicy)
	f.register(c.Flags())
	complete(c, "snapshot", a.snapshotArgs(-1))
	a.pastFlag(c)
	return c
}

func (a *app) find(ctx context.Context, f *findFlags, args []string) error {
	q, err := f.query(args)
	if err != nil {
		return err
	}
	return a.withRepository(ctx, func(r *repo.Repository) error {
		list, err := a.selectSnapshots(ctx, r, f.snapshots, f.filter)
		if err != nil {
			return err
		}
		var last *repo.Listed
		err = browse.Find(ctx, r.LoadBlob, list, q, func(m browse.Match) error {
			if last == nil || m.Snapshot.ID != last.ID {
				last = m.Snapshot
				if err := a.print.Report(output.Heading(last)); err != nil {
					return err
				}
			}
			return a.print.Print(&output.Node{Path: m.Path, Node: m.Node, Match: last.ID.String(), Long: f.long,
				In: last.Snapshot})
		})
		if err == nil && last == nil {
			a.print.Note(fmt.Sprintf("no match in %s", human.Plural(uint64(len(list)), "snapshot")))
		}
		return err
	})
}

// selectSnapshots returns the named snapshots, or all that match the filter. It notes unreadable ones.
func (a *app) selectSnapshots(ctx context.Context, r *repo.Repository, refs []string, filter repo.Filter,
) (list []repo.Listed, err error) {
	for _, ref := range refs {
		found, err := r.FindSnapshot(ctx, ref, filter)
		if err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	if len(refs) > 0 {
		return list, nil
	}
	list, _, err = a.readable(ctx, r, filter)
	return list, err
}

// whole leaves out the partial ones of some snapshots.
func whole(list []repo.Listed) []repo.Listed {
	return slices.DeleteFunc(list, func(s repo.Listed) bool { return s.Snapshot.Partial })
}

// readable returns the snapshots that match the filter and the number of unreadable ones, and notes each of these.
func (a *app) readable(ctx context.Context, r *repo.Repository, filter repo.Filter) (list []repo.Listed,
	unread uint64, err error) {
	all, err := r.Snapshots(ctx)
	if err != nil {
		return nil, 0, err
	}
	r.ReportMissing(ctx, all)
	for _, one := range all {
		switch {
		case one.Err != nil:
			unread++
			a.print.Note(fmt.Sprintf("snapshot %s cannot be read: %v", one.ID.Short(), one.Err))
		case filter.Match(one.Snapshot):
			list = append(list, one)
		}
	}
	return list, unread, nil
}
