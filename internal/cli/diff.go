package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// diffFlags are the flags of diff.
type diffFlags struct {
	filter   repo.Filter
	metadata bool
	readData bool
}

func (a *app) diffCommand() *cobra.Command {
	var f diffFlags
	c := a.command(&cobra.Command{
		Use:   "diff [flags] SNAPSHOT[:/PATH] [SNAPSHOT[:/PATH] | FOLDER]",
		Short: "Show the differences between two snapshots, or a snapshot and the files on this machine",
		Long: `Shows what changed from a snapshot to a second one, or with one snapshot, what changed on this machine since:
"latest" is the newest snapshot of this machine, unless --host names another, and what the rules exclude counts as
removed. A FOLDER begins with / or . and is compared with the snapshot, such as files that were restored elsewhere.

    +  added in the second      -  removed in the second
    T  type changed             M  content changed
    U  metadata changed (with --metadata)
    ?  content changed, size and times equal: damage, or on purpose

Files on this machine are read if their time differs and their size is equal; with --read-data also if both are equal.

The last lines count what was added and removed. The data of two snapshots is what only one of them needs: each chunk
and tree is counted once (after deduplication), before compression. Else it is the sizes of the files that differ.`,
		Example: `  tidemark diff 1f3a latest
  tidemark diff latest
  tidemark diff latest:/home/ann/photos`,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.snapshotArgs(2),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			if len(args) == 1 || isPath(args[1]) {
				return a.diffLive(ctx, r, f, args[0], args[1:])
			}
			if f.readData {
				return usagef("--read-data is for files on this machine: leave it out, or name one snapshot only")
			}
			return a.diffSnapshots(ctx, r, f, args)
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &f.filter)
	c.Flags().BoolVar(&f.metadata, "metadata", false,
		"also show objects that differ only in owner, mode, times or attributes")
	c.Flags().BoolVar(&f.readData, "read-data", false, "read the files on this machine to compare their content")
	a.pastFlag(c)
	return c
}

// isPath reports whether an argument is a path on this machine; that of a snapshot begins with an ID.
func isPath(arg string) bool {
	return filepath.IsAbs(arg) || strings.HasPrefix(arg+"/", "./") || strings.HasPrefix(arg+"/", "../")
}

func (a *app) diffSnapshots(ctx context.Context, r *repo.Repository, f diffFlags, args []string) error {
	old, from, err := a.sideOf(ctx, r, args[0], f.filter)
	if err != nil {
		return err
	}
	now, to, err := a.sideOf(ctx, r, args[1], f.filter)
	if err != nil {
		return err
	}
	opt := browse.DiffOptions{Metadata: f.metadata}
	stats, err := browse.Diff(ctx, r.LoadBlob, old.Subtree, now.Subtree, opt, a.change)
	if err != nil {
		return err
	}
	stats.From, stats.To = from, to
	return a.print.Report(output.DiffStats(&stats))
}

// change prints one difference.
func (a *app) change(c browse.Change) error { return a.print.Print(output.Change(&c)) }

// sideOf returns the directory that an argument names, and the ID of the snapshot that has it.
func (a *app) sideOf(ctx context.Context, r *repo.Repository, argument string, filter repo.Filter) (n *tree.Node,
	id string, err error) {
	l, sub, err := find(ctx, r, argument, filter)
	if err != nil {
		return nil, "", err
	}
	n, err = browse.Resolve(ctx, r.LoadBlob, l.Snapshot.Tree, sub)
	if err == nil && n.Subtree.IsZero() {
		err = usagef("%s: not a directory; name two directories or two snapshots", argument)
	}
	return n, l.ID.String(), err
}

// diffLive compares a snapshot with the files on this machine: those at the same paths, or a folder.
func (a *app) diffLive(ctx context.Context, r *repo.Repository, f diffFlags, argument string, folder []string) error {
	here := f.filter
	if len(here.Hosts) == 0 {
		here.Hosts = []string{hostName()}
	}
	unread := 0
	live := browse.Live{Gates: a.governor.Gate, ReadData: f.readData, Problem: func(path string, err error) {
		unread++
		a.print.Note(fmt.Sprintf("%s: %v", human.Printable(path), err))
	}}
	var id, target string
	var pairs []browse.Pair
	if len(folder) == 1 {
		n, snapshot, err := a.sideOf(ctx, r, argument, here)
		if err != nil {
			return err
		}
		path, err := filepath.Abs(folder[0])
		if err != nil {
			return fmt.Errorf("find path: %w", err)
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("find folder: %w", err)
		}
		n.Name = "" // its own metadata are not compared
		id, target = snapshot, path
		pairs = []browse.Pair{{Old: n, Source: path, Path: path, At: "/"}}
	} else {
		found, sub, err := find(ctx, r, argument, here)
		if err != nil {
			return err
		}
		id = found.ID.String()
		if pairs, err = livePairs(ctx, r, found, sub); err != nil {
			return err
		}
		spec, _, err := a.domain()
		if err != nil {
			return err
		}
		chosen, err := a.choose(ctx, spec, nil)
		if err != nil {
			return err
		}
		live.Rules, live.Skip = chosen.Rules, chosen.Skip
	}
	stats, err := browse.DiffLive(ctx, r, pairs, browse.DiffOptions{Metadata: f.metadata}, live, a.change)
	if err != nil {
		return err
	}
	stats.From, stats.To, stats.Live = id, target, true
	err = a.print.Report(output.DiffStats(&stats))
	if err == nil && unread > 0 {
		err = errors.New("some files could not be read, see above; they are left out")
	}
	return err
}

// livePairs returns what is compared with the files on this machine: each source of a snapshot, or what lies at sub.
func livePairs(ctx context.Context, r *repo.Repository, found repo.Listed, sub string) (
	pairs []browse.Pair, err error,
) {
	only := filepath.Join("/", sub)
	sources := found.Snapshot.Sources
	for _, source := range sources {
		nested := slices.ContainsFunc(sources, func(other string) bool {
			return source != other && scope.Within(source, other)
		})
		path := source
		if scope.Within(only, source) {
			path = only
		}
		if nested || !filepath.IsAbs(source) || !scope.Within(path, only) {
			continue
		}
		old, err := browse.Resolve(ctx, r.LoadBlob, found.Snapshot.Tree, path)
		if errors.Is(err, browse.ErrNotFound) && path == source {
			continue // it was excluded
		}
		if err != nil && !errors.Is(err, browse.ErrNotFound) {
			return nil, err
		}
		pairs = append(pairs, browse.Pair{Old: old, Source: source, Path: path, At: path})
	}
	if len(pairs) == 0 {
		return nil, usagef("%s is not in the snapshot, which has %s", human.Printable(only),
			human.Printable(strings.Join(sources, ", ")))
	}
	return pairs, nil
}
