package browse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// covers reports whether a path lies in one of the sources of a snapshot, which says nothing of what is outside them.
func covers(l *repo.Listed, at string) bool {
	return slices.ContainsFunc(l.Snapshot.Sources, func(source string) bool { return snapshot.Within(at, source) })
}

// Version is a state of an object, in one or several snapshots in a row.
type Version struct {
	Path   string
	Node   *tree.Node
	First  *repo.Listed // the oldest snapshot of those
	Last   *repo.Listed // the newest
	Count  int          // of the snapshots
	Active bool         // the newest snapshot that covers the path has it
}

// VersionQuery selects versions of the objects below a directory.
type VersionQuery struct {
	Dir      string
	Match    func(at string, n *tree.Node) bool // of an object
	Enter    bool                               // subdirectories too
	Inactive bool                               // inactive versions too
	Contents bool                               // other metadata of the same content is no other version
}

// Versions calls visit for each version of the objects that match, the active one first, then from the newest to the
// oldest. The snapshots are in their order, the oldest first. A directory is the same version as long as its own
// metadata is. Each different directory is read once for each path that leads to it; in memory are the directories from
// the root to the current position.
func Versions(
	ctx context.Context, load tree.Load, snapshots []repo.Listed, q VersionQuery, visit func(Version) error,
) error {
	v := &versions{load: load, snapshots: snapshots, q: q, visit: visit}
	subtrees := make([]format.ID, len(snapshots))
	for i, s := range snapshots {
		n, err := Resolve(ctx, load, s.Snapshot.Tree, q.Dir)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotDir) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list versions in snapshot %s: %w", s.ID.Short(), err)
		}
		subtrees[i] = n.Subtree
	}
	return v.dir(ctx, clean(q.Dir), subtrees)
}

type versions struct {
	load      tree.Load
	snapshots []repo.Listed
	q         VersionQuery
	visit     func(Version) error
}

// dir visits the objects of one directory; subtrees has its root page in each snapshot, zero where it is not there.
func (v *versions) dir(ctx context.Context, at string, subtrees []format.ID) error {
	lists := map[format.ID]map[string]*tree.Node{{}: nil}
	names := map[string]bool{}
	for _, id := range subtrees {
		if _, known := lists[id]; known {
			continue
		}
		list := map[string]*tree.Node{}
		err := tree.Walk(ctx, v.load, id, func(n *tree.Node) error {
			list[n.Name], names[n.Name] = n, true
			return nil
		})
		if err != nil {
			return fmt.Errorf("read folder %s: %w", at, err)
		}
		lists[id] = list
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		states := make([]*tree.Node, len(subtrees))
		below, entered := make([]format.ID, len(subtrees)), false
		for i, id := range subtrees {
			if n := lists[id][name]; n != nil {
				states[i] = n
				below[i], entered = n.Subtree, entered || n.Type == tree.Dir
			}
		}
		if err := v.object(join(at, name), states); err != nil {
			return err
		}
		if entered && v.q.Enter {
			if err := v.dir(ctx, join(at, name), below); err != nil {
				return err
			}
		}
	}
	return nil
}

// object visits the versions of one object.
func (v *versions) object(at string, states []*tree.Node) error {
	var all []Version
	for i, n := range states {
		last := len(all) - 1
		switch {
		case n == nil && covers(&v.snapshots[i], at) && last >= 0:
			all[last].Active = false
		case n == nil:
		case last >= 0 && all[last].Active && v.same(all[last].Node, n):
			all[last].Last, all[last].Node = &v.snapshots[i], n
			all[last].Count++
		default:
			if last >= 0 {
				all[last].Active = false
			}
			in := &v.snapshots[i]
			all = append(all, Version{Path: at, Node: n, First: in, Last: in, Count: 1, Active: true})
		}
	}
	for _, one := range slices.Backward(all) {
		if !one.Active && !v.q.Inactive || !v.q.Match(at, one.Node) {
			continue
		}
		if err := v.visit(one); err != nil {
			return err
		}
	}
	return nil
}

func (v *versions) same(a, b *tree.Node) bool {
	if v.q.Contents {
		return a.Type == b.Type && sameContent(a, b) && a.Target == b.Target && a.Outcome == b.Outcome
	}
	return sameVersion(a, b)
}

// sameVersion reports whether a backup would not store b again after a.
func sameVersion(a, b *tree.Node) bool {
	if a.Type != b.Type {
		return false
	}
	if a.Type != tree.Dir {
		return sameContent(a, b) && sameMetadata(a, b)
	}
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && sameXattrs(a.Xattrs, b.Xattrs)
}
