package copy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// walked yields what a walk visits.
func walked[T any](walk func(visit func(T) error) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := walk(func(one T) error {
			if !yield(one, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(*new(T), err)
		}
	}
}

// chunksOf yields the chunks of a file.
func chunksOf(ctx context.Context, load tree.Load, c *tree.Content) iter.Seq2[tree.Chunk, error] {
	return walked(func(visit func(tree.Chunk) error) error {
		return c.Each(ctx, load, func(chunk tree.Chunk, _ uint64) error { return visit(chunk) })
	})
}

// cursor looks up nodes of a folder by ascending names. A nil cursor has none.
type cursor struct {
	next func() (*tree.Node, error, bool)
	stop func()
	at   *tree.Node
	end  bool
}

func newCursor(ctx context.Context, load tree.Load, id format.ID) *cursor {
	if id.IsZero() {
		return nil
	}
	c := &cursor{}
	c.next, c.stop = iter.Pull2(walked(func(visit func(*tree.Node) error) error {
		return tree.Walk(ctx, load, id, visit)
	}))
	return c
}

func (c *cursor) close() {
	if c != nil {
		c.stop()
	}
}

// seek returns the node of that name, nil if there is none.
func (c *cursor) seek(name string) (*tree.Node, error) {
	for c != nil && !c.end && (c.at == nil || c.at.Name < name) {
		n, err, ok := c.next()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReference, err)
		}
		c.at, c.end = n, !ok
	}
	if c == nil || c.end || c.at.Name != name {
		return nil, nil
	}
	return c.at, nil
}

// earlierNode is a node of the same name in the snapshot that was copied before, and its copy; both nil for none.
type earlierNode struct{ from, to *tree.Node }

// same reports whether the contents of n were copied with the earlier node.
func (e earlierNode) same(n *tree.Node) bool {
	if e.from == nil || e.from.Type != n.Type {
		return false
	}
	if n.Type == tree.Dir {
		return e.from.Subtree == n.Subtree
	}
	return n.Size == e.from.Size && n.Content.Equal(&e.from.Content)
}

// below returns the subdirectories, for the next comparison.
func (e earlierNode) below() pair {
	if e.from == nil || e.from.Type != tree.Dir {
		return pair{}
	}
	return pair{e.from.Subtree, e.to.Subtree}
}

// each visits the nodes of a folder with the nodes of the earlier snapshot under their names. The order of calls is
// deterministic, so a second walk can use the results of a first one in order.
func (t *transfer) each(ctx context.Context, id format.ID, earlier pair,
	visit func(*tree.Node, earlierNode) error) error {
	was := newCursor(ctx, t.loadEarlier, earlier.from)
	defer was.close()
	is := was
	if earlier.to != earlier.from {
		is = newCursor(ctx, t.loadCopy, earlier.to)
		defer is.close()
	}
	return tree.Walk(ctx, t.load, id, func(n *tree.Node) error {
		a, err := was.seek(n.Name)
		if err != nil {
			return err
		}
		b, err := is.seek(n.Name)
		if err != nil {
			return err
		}
		if a == nil || b == nil || a.Type != b.Type || a.Size != b.Size || a.ModTime != b.ModTime {
			return visit(n, earlierNode{})
		}
		return visit(n, earlierNode{a, b})
	})
}

// eachChunk visits the chunks of a file. With each comes its ID in the copy if the earlier file had it at the same
// offset; zero if unknown. Files that grow or are written in place keep most of their chunks there.
func (t *transfer) eachChunk(ctx context.Context, n *tree.Node, e earlierNode,
	visit func(tree.Chunk, format.ID) error) error {
	a := newAligned(ctx, t, e)
	defer a.close()
	at := uint64(0)
	for chunk, err := range chunksOf(ctx, t.load, &n.Content) {
		if err != nil {
			return err
		}
		known := format.ID{}
		if !chunk.IsHole() {
			if known, err = a.copyOf(chunk, at); err != nil {
				return err
			}
		}
		if err := visit(chunk, known); err != nil {
			return err
		}
		at += chunk.Len
	}
	return nil
}

// aligned iterates over the chunks of an earlier file and of its copy in parallel.
type aligned struct {
	from, to         func() (tree.Chunk, error, bool)
	stopFrom, stopTo func()
	at               uint64 // offset of the chunks
	was, is          tree.Chunk
	end              bool
}

func newAligned(ctx context.Context, t *transfer, e earlierNode) *aligned {
	if e.from == nil || e.from.Type != tree.File {
		return nil
	}
	a := &aligned{}
	a.from, a.stopFrom = iter.Pull2(chunksOf(ctx, t.loadEarlier, &e.from.Content))
	a.to, a.stopTo = iter.Pull2(chunksOf(ctx, t.loadCopy, &e.to.Content))
	return a
}

func (a *aligned) close() {
	if a != nil {
		a.stopFrom()
		a.stopTo()
	}
}

func (a *aligned) copyOf(c tree.Chunk, at uint64) (format.ID, error) {
	for a != nil && !a.end && a.at+a.was.Len <= at {
		a.at += a.was.Len
		was, err, more := a.from()
		is, errTo, moreTo := a.to()
		if err != nil || errTo != nil {
			return format.ID{}, fmt.Errorf("%w: %w", errReference, cmp.Or(err, errTo))
		}
		a.was, a.is = was, is
		a.end = !more || !moreTo || was.Len != is.Len || was.Len == 0
	}
	if a == nil || a.end || a.at != at || a.was != c {
		return format.ID{}, nil
	}
	return a.is.ID, nil
}
