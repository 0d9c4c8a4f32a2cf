// Package browse reads snapshots without restoring them: it lists directories, finds names, compares two trees, or
// one with live files, writes files and directories to a stream, and counts.
//
// Everything streams: in memory are the pages of the directories from the root down to the current position of a walk.
// Functions that keep more document how much. The package writes nothing to a repository. It passes nodes to callbacks,
// and the caller formats them.
package browse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Visit receives each object with its path from the root of the tree, "/a/b". The node may be kept. fs.SkipDir for a
// directory skips its content; any other error ends the walk and is returned unchanged.
type Visit func(path string, n *tree.Node) error

// Resolve returns the node at the path sub of the tree with that root page. "" and "/" stand for the root itself: a
// directory without a name. The error wraps ErrNotFound or ErrNotDir. Resolve does not follow symbolic links in the
// path.
func Resolve(ctx context.Context, load tree.Load, root format.ID, sub string) (*tree.Node, error) {
	n := &tree.Node{Type: tree.Dir, Mode: 0o755, Links: 1, Subtree: root}
	at := "/"
	for name := range strings.SplitSeq(clean(sub), "/") {
		if name == "" {
			continue
		}
		if n.Type != tree.Dir {
			return nil, fmt.Errorf("%s: %w", at, ErrNotDir)
		}
		at = path.Join(at, name)
		child, err := tree.Lookup(ctx, load, n.Subtree, name)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", at, err)
		}
		if child == nil {
			return nil, fmt.Errorf("%s: %w", clean(sub), ErrNotFound)
		}
		n = child
	}
	return n, nil
}

// clean makes user input a path from the root.
func clean(sub string) string { return path.Clean("/" + sub) }

// List visits the content of the directory sub, in byte order of the names, a directory before its content. With
// recursive it visits the whole subtree. If sub is not a directory, it is itself visited.
func List(ctx context.Context, load tree.Load, root format.ID, sub string, recursive bool, visit Visit) error {
	n, err := Resolve(ctx, load, root, sub)
	if err != nil {
		return err
	}
	at := clean(sub)
	if n.Type != tree.Dir {
		if err := visit(at, n); !errors.Is(err, fs.SkipDir) {
			return err
		}
		return nil
	}
	return walk(ctx, load, n.Subtree, at, recursive, visit)
}

// walk visits the content of one directory.
func walk(ctx context.Context, load tree.Load, dir format.ID, at string, recursive bool, visit Visit) error {
	var own error // of visit or of a subdirectory, which must not be wrapped for this one
	err := tree.Walk(ctx, load, dir, func(n *tree.Node) error {
		where := join(at, n.Name)
		switch own = visit(where, n); {
		case errors.Is(own, fs.SkipDir):
			own = nil
		case own == nil && recursive && n.Type == tree.Dir:
			own = walk(ctx, load, n.Subtree, where, true, visit)
		}
		return own
	})
	if own != nil || err == nil {
		return own
	}
	return fmt.Errorf("read folder %s: %w", at, err)
}

// join is path.Join for names that are already clean; it must not interpret them.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// short is the part of an ID that sets keep: half the memory, and still without collisions.
type short [16]byte

func shorten(id format.ID) short { return short(id[:16]) }
