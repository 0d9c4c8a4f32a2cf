package browse

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Query selects what Find searches for. An object must match every field that is set; an empty query matches
// everything.
type Query struct {
	Patterns     []string // one of these must match: see the package's pattern rules in docs
	IgnoreCase   bool
	Newer, Older *tree.Time  // modified at or after Newer, at or before Older
	IDs          []format.ID // uses one of these blobs, as content, list page or tree page
}

// Match is one object that was found.
type Match struct {
	Snapshot *repo.Listed
	Path     string
	Node     *tree.Node
}

// Find calls visit for each object of the snapshots that matches the query, snapshot by snapshot. A directory without a
// match is skipped in later snapshots that share it, unless a pattern matches whole paths; this takes about 40 bytes of
// memory for each different directory.
func Find(ctx context.Context, load tree.Load, in []repo.Listed, q Query, visit func(Match) error) error {
	f := &finder{load: load, q: q, visit: visit, barren: make(map[short]struct{}), byName: true}
	for _, text := range q.Patterns {
		p, err := parsePattern(text, q.IgnoreCase)
		if err != nil {
			return fmt.Errorf("find: %w", err)
		}
		f.patterns = append(f.patterns, p)
		f.byName = f.byName && p.byName()
	}
	for i := range in {
		s := &in[i]
		f.snapshot = s
		if len(q.IDs) > 0 {
			root := &tree.Node{Type: tree.Dir, Mode: 0o755, Links: 1, Subtree: s.Snapshot.Tree}
			if err := f.object(ctx, "/", root); err != nil {
				return fmt.Errorf("find in snapshot %s: %w", s.ID.Short(), err)
			}
		}
		if err := f.dir(ctx, s.Snapshot.Tree, "/"); err != nil {
			return fmt.Errorf("find in snapshot %s: %w", s.ID.Short(), err)
		}
	}
	return nil
}

type finder struct {
	load     tree.Load
	q        Query
	patterns []pattern
	byName   bool // no pattern matches whole paths
	visit    func(Match) error
	barren   map[short]struct{} // directories without a match beneath them, under any path
	snapshot *repo.Listed
	found    uint64
}

// dir searches a directory.
func (f *finder) dir(ctx context.Context, id format.ID, at string) error {
	if _, known := f.barren[shorten(id)]; known {
		return nil
	}
	before := f.found
	err := walk(ctx, f.load, id, at, false, func(where string, n *tree.Node) error {
		if err := f.object(ctx, where, n); err != nil {
			return err
		}
		if n.Type == tree.Dir {
			return f.dir(ctx, n.Subtree, where)
		}
		return nil
	})
	if err == nil && f.found == before && f.byName {
		f.barren[shorten(id)] = struct{}{}
	}
	return err
}

func (f *finder) object(ctx context.Context, at string, n *tree.Node) error {
	if !f.suits(at, n) {
		return nil
	}
	if len(f.q.IDs) > 0 {
		if uses, err := f.uses(ctx, n); err != nil {
			return fmt.Errorf("look for blobs in %s: %w", at, err)
		} else if !uses {
			return nil
		}
	}
	f.found++
	return f.visit(Match{Snapshot: f.snapshot, Path: at, Node: n})
}

// suits matches a node against the fields of the query that need only the node itself.
func (f *finder) suits(at string, n *tree.Node) bool {
	q := &f.q
	switch {
	case q.Newer != nil && n.ModTime.Compare(*q.Newer) < 0:
		return false
	case q.Older != nil && n.ModTime.Compare(*q.Older) > 0:
		return false
	}
	return len(f.patterns) == 0 || slices.ContainsFunc(f.patterns, func(p pattern) bool {
		return p.match(at, n.Name)
	})
}

// uses reports whether the object itself consists of one of Query.IDs.
func (f *finder) uses(ctx context.Context, n *tree.Node) (hit bool, err error) {
	look := func(id format.ID) error {
		if slices.Contains(f.q.IDs, id) {
			hit = true
			return fs.SkipAll
		}
		return nil
	}
	// Every page is loaded here, so a page in Query.IDs is detected as well.
	load := func(ctx context.Context, id format.ID) ([]byte, error) {
		if err := look(id); err != nil {
			return nil, err
		}
		return f.load(ctx, id)
	}
	switch n.Type {
	case tree.Dir:
		err = tree.Walk(ctx, load, n.Subtree, func(*tree.Node) error { return nil })
	case tree.File:
		err = eachChunk(ctx, load, n, func(c tree.Chunk) error { return look(c.ID) })
	}
	if hit {
		return true, nil
	}
	return false, err
}

// sameXattrs reports whether both lists are equal.
func sameXattrs(a, b []tree.Xattr) bool {
	return slices.EqualFunc(a, b, func(x, y tree.Xattr) bool {
		return x.Name == y.Name && bytes.Equal(x.Value, y.Value)
	})
}
