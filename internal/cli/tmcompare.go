package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/tm"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// tmCompare is one run of compare.
type tmCompare struct {
	*app
	choose  tm.Choice
	every   bool // exclusions do not count
	xml     bool
	host    *string
	wholly  tm.Differences // of -X
	partial bool           // something could not be read
}

func (a *app) tmCompareCommand() *cobra.Command {
	t := &tmCompare{app: a}
	c := a.command(&cobra.Command{
		Use:   "compare [flags] [SNAPSHOT | PATH | SNAPSHOT SNAPSHOT | SNAPSHOT[:/PATH] PATH]",
		Short: "Compare a snapshot with this machine, or two snapshots",
		Long: `Compares the newest snapshot of this machine with the files that are there now. A SNAPSHOT stands for the
newest one, and a PATH limits the comparison to what lies there. Two snapshots are compared with each other. A line is

    +  added      -  removed      !  changed, with the properties that differ

with the size of the file: the new one, or the old one of a removed file. The last lines add up these sizes. What the
rules exclude counts as not there, unless -E is given.

Without flags that choose properties, sizes, modification times, modes, owners and link targets count, and between two
snapshots the content too. Times of folders do not count. -d reads files whose size is unchanged.`,
		Example: `  tidemark tm compare
  tidemark tm compare -d ~/photos
  tidemark tm compare 2026-11-22-081500.backup 2026-11-23-081500.backup`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.snapshotArgs(2),
	}, t.run, options.GroupPolicy)
	t.register(c.Flags())
	t.host = hostFlag(c)
	return c
}

func (t *tmCompare) register(flags *pflag.FlagSet) {
	for _, one := range tm.Letters() {
		flags.BoolVarP(t.choose.Flag(one.Property), one.Name, one.Letter, false, "compare "+one.What)
		help.Rare(flags, one.Name)
	}
	flags.BoolVarP(&t.choose.All, "all-properties", "a", false, "compare all properties")
	flags.BoolVarP(&t.choose.None, "no-properties", "n", false, "report only what was added, removed or has another type")
	flags.BoolVarP(&t.every, "no-exclusions", "E", false, "include what the rules exclude")
	flags.BoolVarP(&t.xml, "xml", "X", false, "print an XML property list")
	flags.IntVarP(&t.choose.Depth, "depth", "D", 0, "compare this many levels only")
	flags.StringArrayVarP(&t.choose.Ignore, "ignore", "I", nil, "leave out this name, wherever it is; repeatable")
}

// run compares what the arguments name.
func (t *tmCompare) run(ctx context.Context, args []string) error {
	if t.choose.Depth < 0 {
		return usagef("--depth %d: write a number, 1 or more", t.choose.Depth)
	}
	return t.withRepository(ctx, func(r *repo.Repository) error {
		list, unread, err := t.tmBackups(ctx, r, *t.host)
		if err != nil {
			return err
		}
		var old tm.Backup
		sub := ""
		named := len(args) > 0 && !isPath(args[0])
		switch {
		case named:
			if old, sub, err = t.tmFind(ctx, r, list, args[0]); err != nil {
				return err
			}
			args = args[1:]
		case len(args) == 2:
			return usagef("compare: name a snapshot first: %q is a path", args[0])
		case len(list) == 0:
			return errNoBackups
		default:
			old = list[len(list)-1]
			t.warnUncertain(unread)
		}
		total := &t.wholly.Total
		total.From = old.ID
		if named && len(args) == 1 && !isPath(args[0]) {
			err = t.snapshots(ctx, r, old, sub, list, args[0])
		} else {
			err = t.live(ctx, r, old, sub, args)
		}
		if err != nil {
			return err
		}
		return t.finish()
	})
}

// isPath reports whether an argument of compare is a path on this machine, and no snapshot.
func isPath(arg string) bool {
	_, _, named, _ := tm.Find(nil, arg)
	return !named && (filepath.IsAbs(arg) || strings.HasPrefix(arg+"/", "./") || strings.HasPrefix(arg+"/", "../"))
}

func (t *tmCompare) finish() error {
	var err error
	if t.xml && !t.spec.Output().JSON {
		err = t.print.Print(&t.wholly)
	} else {
		err = t.print.Report(&t.wholly.Total)
	}
	if err == nil && t.partial {
		err = errors.New("some files could not be read, see above; they are left out")
	}
	return err
}

// show prints or keeps a difference at a path; root is where the comparison begins.
func (t *tmCompare) show(c browse.Change, want tm.Property, root string) error {
	if t.choose.LeavesOut(c.Path, root) {
		return nil
	}
	d := tm.NewDifference(c, want)
	if d == nil {
		return nil
	}
	t.wholly.Total.Add(d)
	if t.xml && !t.spec.Output().JSON {
		t.wholly.Add(d)
		return nil
	}
	return t.print.Print(d)
}

// snapshots compares a snapshot with a second one.
func (t *tmCompare) snapshots(ctx context.Context, r *repo.Repository, old tm.Backup, sub string, list []tm.Backup,
	second string,
) error {
	other, otherSub, err := t.tmFind(ctx, r, list, second)
	if err != nil {
		return err
	}
	t.wholly.Total.To = other.ID
	var sides [2]*tree.Node
	for i, side := range []struct {
		tm.Backup
		sub string
	}{{old, sub}, {other, otherSub}} {
		if sides[i], err = browse.Resolve(ctx, r, side.Snapshot.Tree, side.sub); err != nil {
			return err
		}
		if sides[i].Type != tree.Dir {
			return usagef("%s: name two directories or two snapshots", side.sub)
		}
	}
	root := filepath.Join("/", otherSub)
	want := t.choose.Properties(tm.Usual | tm.Data)
	opt := browse.DiffOptions{Metadata: true}
	_, err = browse.Diff(ctx, r, sides[0].Subtree, sides[1].Subtree, opt, func(c browse.Change) error {
		c.Path = filepath.Join(root, c.Path)
		return t.show(c, want, root)
	})
	return err
}

// live compares a snapshot, or the path sub in it, with this machine. args is the path to compare, if one was given.
func (t *tmCompare) live(ctx context.Context, r *repo.Repository, old tm.Backup, sub string, args []string) error {
	only := filepath.Join("/", sub)
	if len(args) == 1 {
		path, err := filepath.Abs(args[0])
		if err != nil {
			return fmt.Errorf("find path: %w", err)
		}
		only = path
	}
	l := &tm.Live{Reader: r, Gates: t.gate, Want: t.choose.Properties(tm.Usual), Problem: func(path string, err error) {
		t.partial = true
		t.print.Note(fmt.Sprintf("%s: %v", human.Printable(path), err))
	}}
	if _, err := t.domain(); err != nil {
		return err
	}
	var src backup.Source
	if err := t.protect(&src); err != nil {
		return err
	}
	if l.Skip = src.Skip; !t.every {
		l.Rules = src.Rules
	}
	if strings.Trim(sub, "/") != "" && len(args) == 1 { // another place
		return t.pair(ctx, r, l, old, sub, only, only)
	}
	compared := false
	for _, source := range old.Snapshot.Sources {
		inside := tm.Within(only, source)
		part := slices.ContainsFunc(old.Snapshot.Sources, func(other string) bool {
			return source != other && tm.Within(source, other)
		})
		if part || !inside && !tm.Within(source, only) {
			continue
		}
		compared = true
		limit := source
		if inside {
			limit = only
		}
		if err := t.pair(ctx, r, l, old, source, source, limit); err != nil {
			return err
		}
	}
	if !compared {
		return usagef("%s is not in the snapshot, which has %s", human.Printable(only),
			human.Printable(strings.Join(old.Snapshot.Sources, ", ")))
	}
	return nil
}

// pair compares the object sub of a snapshot with that at source, as far as it lies at only. A source that the snapshot
// lacks was excluded.
func (t *tmCompare) pair(ctx context.Context, r *repo.Repository, l *tm.Live, old tm.Backup, sub, source, only string,
) error {
	n, err := browse.Resolve(ctx, r, old.Snapshot.Tree, sub)
	if errors.Is(err, browse.ErrNotFound) && source != only {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(only); missing(err) {
		_, err := browse.Resolve(ctx, r, old.Snapshot.Tree, filepath.Join(sub, strings.TrimPrefix(only, source)))
		if errors.Is(err, browse.ErrNotFound) {
			return usagef("%s: there is no such file or directory, neither here nor in the snapshot", human.Printable(only))
		}
	}
	l.Visit = func(c browse.Change) error { return t.show(c, l.Want, only) }
	return l.Compare(ctx, source, n, only)
}
