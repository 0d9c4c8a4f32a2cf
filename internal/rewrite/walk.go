package rewrite

import (
	"context"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// cleanDirs bounds how many directories are remembered as whole, 32 bytes each: others are examined again for
	// each snapshot that has them.
	cleanDirs = 1 << 20
	// lookedUp is how many chunks are looked up together.
	lookedUp = 4 << 10
)

// Walker follows trees and finds out what they have lost.
type Walker struct {
	k     *Keeper
	lost  func(path string)
	clean map[format.ID]struct{}
}

// NewWalker returns a Walker that passes the path of each lost object to lost.
func NewWalker(k *Keeper, lost func(path string)) *Walker {
	return &Walker{k: k, lost: lost, clean: make(map[format.ID]struct{})}
}

// Clean reports whether a directory was examined and has lost nothing.
func (w *Walker) Clean(id format.ID) bool {
	_, clean := w.clean[id]
	return clean
}

// Look reports whether something is lost in a directory with that path, "" for the root, and records each object.
func (w *Walker) Look(ctx context.Context, id format.ID, path string) (dirty bool, err error) {
	if w.Clean(id) {
		return false, nil
	}
	partial := false
	err = w.k.eachPage(ctx, id, func(pg *tree.Page) error {
		if pg == nil {
			partial = true
			return nil
		}
		for i := range pg.Nodes {
			n := &pg.Nodes[i]
			bad, err := false, error(nil)
			if n.Type == tree.Dir {
				bad, err = w.Look(ctx, n.Subtree, path+"/"+n.Name)
			} else if bad, err = w.Loses(ctx, n); bad {
				w.lost(path + "/" + n.Name)
			}
			if dirty = dirty || bad; err != nil {
				return err
			}
		}
		return nil
	})
	if partial {
		if path == "" {
			path = "/"
		}
		w.lost(path)
	}
	if dirty = dirty || partial; err == nil && !dirty && len(w.clean) < cleanDirs {
		w.clean[id] = struct{}{}
	}
	return dirty, err
}

// Loses reports whether a part of the content of an object is lost.
func (w *Walker) Loses(ctx context.Context, n *tree.Node) (bool, error) {
	if n.Type != tree.File {
		return false, nil
	}
	var ids []format.ID
	check := func() error {
		ok, err := w.k.Has(ctx, pack.Data, ids...)
		if ids = ids[:0]; err == nil && !ok {
			err = errLost
		}
		return err
	}
	err := n.Content.Each(ctx, w.k.load, func(c tree.Chunk, _ uint64) error {
		if c.IsHole() {
			return nil
		}
		if ids = append(ids, c.ID); len(ids) < lookedUp {
			return nil
		}
		return check()
	})
	if err == nil {
		err = check()
	}
	if err != nil && context.Cause(ctx) == nil && isLost(err) {
		return true, nil
	}
	return false, err
}
