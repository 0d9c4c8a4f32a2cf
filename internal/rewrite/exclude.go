package rewrite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// keptSums bounds how many sums of left-out directories are remembered, some 100 bytes each.
const keptSums = 1 << 16

// keptWhole bounds how many directories are remembered from which nothing is left out, 32 bytes each.
const keptWhole = 1 << 20

// Excluded is an object that matches, with everything in it.
type Excluded struct {
	Snapshot format.ID `json:"snapshot_id"` // the original
	event.Path
	Type tree.Type `json:"-"`
	snapshot.Content
}

// Result is what an Exclude did.
type Result struct {
	Snapshots uint64 // examined
	Changed   []Changed
	Empty     []format.ID // kept, because nothing would be left of them
}

// Exclude replaces snapshots by ones without the objects that the rules exclude. Directories without such an object
// keep their trees. each is called for each object before the snapshot changes; may be nil.
func Exclude(ctx context.Context, r *repo.Repository, chosen []repo.Listed, set *rules.Set, each func(Excluded) error,
	opt Options) (*Result, error) {
	res := &Result{}
	err := within(ctx, r, opt, func(ctx context.Context, w *writer) error {
		x := &excluder{writer: w, rules: set, each: each, sums: make(map[format.ID]snapshot.Content),
			whole: make(map[format.ID]struct{})}
		for i := range chosen {
			if err := x.one(ctx, &chosen[i], res); err != nil {
				return fmt.Errorf("snapshot %s: %w", chosen[i].ID.Short(), err)
			}
			res.Snapshots++
		}
		return w.forget(ctx, res.Changed)
	})
	if err != nil {
		return res, fmt.Errorf("rewrite: %w", err)
	}
	return res, nil
}

// excluder is one Exclude.
type excluder struct {
	*writer
	rules *rules.Set
	each  func(Excluded) error
	sums  map[format.ID]snapshot.Content // by left-out directory
	whole map[format.ID]struct{}         // directories from which patterns without a place leave nothing out

	snapshot format.ID           // that is examined
	sources  []string            // of it
	dirty    map[string]struct{} // directories of it to be stored again
	left     snapshot.Content    // of it
}

func (x *excluder) one(ctx context.Context, l *repo.Listed, res *Result) error {
	state, _ := x.rules.Root("/")
	x.snapshot, x.sources = l.ID, l.Snapshot.Sources
	x.dirty, x.left = make(map[string]struct{}), snapshot.Content{}
	rest, err := x.search(ctx, l.Snapshot.Tree, "", state)
	switch {
	case err != nil:
		return err
	case len(x.dirty) == 0:
		return nil
	case !rest:
		res.Empty = append(res.Empty, l.ID)
		return nil
	}
	sn := *l.Snapshot
	c := Changed{Old: *l, Snapshot: &sn, Left: x.left}
	if !x.opt.DryRun {
		if err := x.require(ctx, l); err != nil {
			return err
		}
		if sn.Tree, err = x.store(ctx, l.Snapshot.Tree, "", state); err != nil {
			return err
		}
	}
	sn.Shape, sn.Held = format.ID{}, nil
	sn.Rules = sn.Rules[:len(sn.Rules):len(sn.Rules)]
	for _, rule := range x.rules.List() {
		sn.Rules = append(sn.Rules, rule.String())
	}
	content := &sn.Stats.Content
	content.Files, content.Dirs = less(content.Files, c.Left.Files), less(content.Dirs, c.Left.Dirs)
	content.Others, content.Bytes = less(content.Others, c.Left.Others), less(content.Bytes, c.Left.Bytes)
	if err := x.publish(ctx, &c); err != nil {
		return err
	}
	res.Changed = append(res.Changed, c)
	return nil
}

// less subtracts, without an underflow where another program counted fewer objects.
func less(a, b uint64) uint64 { return a - min(a, b) }

// onTheWay reports whether a directory is above a source.
func (x *excluder) onTheWay(path string) bool {
	return slices.ContainsFunc(x.sources, func(source string) bool { return strings.HasPrefix(source, path+"/") })
}

// search finds what matches below a directory, and reports whether the directory keeps an entry. A directory above a
// source counts only for what is in it.
func (x *excluder) search(ctx context.Context, id format.ID, path string, at *rules.DirState) (rest bool, err error) {
	everywhere := at.Unanchored()
	if _, whole := x.whole[id]; whole && everywhere {
		return true, nil
	}
	before := len(x.dirty)
	err = tree.Walk(ctx, x.r.LoadBlob, id, func(n *tree.Node) error {
		if excludes(at, n) {
			x.dirty[path] = struct{}{}
			return x.leaveOut(ctx, path+"/"+n.Name, n)
		}
		if n.Type != tree.Dir {
			rest = true
			return nil
		}
		was, below := len(x.dirty), path+"/"+n.Name
		kept, err := x.search(ctx, n.Subtree, below, at.Child([]byte(n.Name)))
		if len(x.dirty) > was {
			x.dirty[path] = struct{}{}
		}
		rest = rest || kept || !x.onTheWay(below)
		return err
	})
	if err != nil {
		return rest, damaged(err, path)
	}
	if everywhere && rest && len(x.dirty) == before && len(x.whole) < keptWhole {
		x.whole[id] = struct{}{}
	}
	return rest, nil
}

// damaged says what to do about a directory that cannot be read.
func damaged(err error, path string) error {
	var in *repo.PackError
	if errors.As(err, &in) || errors.Is(err, format.ErrCorrupt) {
		return fmt.Errorf("%w: directory %q: %w", ErrDamaged, path+"/", err)
	}
	return err
}

// leaveOut counts an object with everything in it and reports it.
func (x *excluder) leaveOut(ctx context.Context, path string, n *tree.Node) error {
	e := Excluded{Snapshot: x.snapshot, Path: event.NewPath(path), Type: n.Type}
	e.Count(n.Type, n.Size)
	if n.Type == tree.Dir {
		in, err := x.sum(ctx, n.Subtree)
		if err != nil {
			return damaged(err, path)
		}
		e.Add(in)
	}
	x.left.Add(e.Content)
	if x.each == nil {
		return nil
	}
	return x.each(e)
}

// sum counts what is in a directory.
func (x *excluder) sum(ctx context.Context, id format.ID) (c snapshot.Content, err error) {
	if known, ok := x.sums[id]; ok {
		return known, nil
	}
	err = tree.Walk(ctx, x.r.LoadBlob, id, func(n *tree.Node) error {
		c.Count(n.Type, n.Size)
		if n.Type != tree.Dir {
			return nil
		}
		in, err := x.sum(ctx, n.Subtree)
		c.Add(in)
		return err
	})
	if err == nil && len(x.sums) < keptSums {
		x.sums[id] = c
	}
	return c, err
}

// store stores a dirty directory without what matches.
func (x *excluder) store(ctx context.Context, id format.ID, path string, at *rules.DirState) (format.ID, error) {
	fresh, partial, err := x.Directory(ctx, id, func(n *tree.Node) (keep bool, err error) {
		if excludes(at, n) {
			return false, nil
		}
		below := path + "/" + n.Name
		if _, dirty := x.dirty[below]; dirty && n.Type == tree.Dir {
			n.Subtree, err = x.store(ctx, n.Subtree, below, at.Child([]byte(n.Name)))
		}
		return true, err
	})
	if err == nil && partial {
		err = fmt.Errorf("%w: directory %q", ErrDamaged, path+"/")
	}
	return fresh, err
}

// excludes reports whether the rules exclude an entry of a directory.
func excludes(dir *rules.DirState, n *tree.Node) bool {
	return dir.Name([]byte(n.Name), n.Type) == rules.Exclude
}
