// Package browse looks into snapshots without restoring them: it lists directories, finds names, compares two trees,
// writes files and directories to a stream, and counts.
//
// Everything streams: what is in memory at a time are the pages of the directories from the root down to the place
// where a walk is, and where a function must remember more, its documentation says how much. The package writes nothing
// to a repository, and it refuses to know how results are shown: it calls back with nodes.
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

// Reader delivers blobs, verified against their IDs. *repo.Repository is one.
type Reader interface {
	LoadBlob(ctx context.Context, id format.ID) ([]byte, error)
}

// Visit is given each object with its path from the root of the tree, "/a/b". The node may be kept. fs.SkipDir for a
// directory leaves out what is in it; any other error ends the walk and comes back as it is.
type Visit func(path string, n *tree.Node) error

// Resolve returns the node at the path sub of the tree with that root page. "" and "/" stand for the root itself: a
// directory without a name. The error wraps ErrNotFound or ErrNotDir. A symbolic link on the way is not followed.
func Resolve(ctx context.Context, r Reader, root format.ID, sub string) (*tree.Node, error) {
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
		child, err := tree.Lookup(ctx, r.LoadBlob, n.Subtree, name)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", at, err)
		}
		if child == nil {
			return nil, fmt.Errorf("%s: %w", at, ErrNotFound)
		}
		n = child
	}
	return n, nil
}

// clean makes a path from the root of what a user wrote.
func clean(sub string) string { return path.Clean("/" + sub) }

// List visits what is in the directory sub, in the order of the bytes of the names, a directory before what is in it;
// with recursive everything beneath it. If sub is no directory, it is visited itself.
func List(ctx context.Context, r Reader, root format.ID, sub string, recursive bool, visit Visit) error {
	n, err := Resolve(ctx, r, root, sub)
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
	return walk(ctx, r, n.Subtree, at, recursive, visit)
}

// walk visits what is in one directory.
func walk(ctx context.Context, r Reader, dir format.ID, at string, recursive bool, visit Visit) error {
	var own error // of visit or of a directory beneath, which need no words about this one
	err := tree.Walk(ctx, r.LoadBlob, dir, func(n *tree.Node) error {
		where := join(at, n.Name)
		switch own = visit(where, n); {
		case errors.Is(own, fs.SkipDir):
			own = nil
		case own == nil && recursive && n.Type == tree.Dir:
			own = walk(ctx, r, n.Subtree, where, true, visit)
		}
		return own
	})
	if own != nil || err == nil {
		return own
	}
	return fmt.Errorf("read folder %s: %w", at, err)
}

// join is path.Join for names that are clean already; it must not interpret them.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// short is what sets of IDs keep of one: half the memory, and still no two blobs that agree.
type short [16]byte

func shorten(id format.ID) short { return short(id[:16]) }
