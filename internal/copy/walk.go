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

// lockstep goes through an earlier folder or file and its copy at the same time.
type lockstep[T any] struct {
	from, to         func() (T, error, bool)
	stopFrom, stopTo func()
	was, is          T
	at               uint64 // offset of chunks
	end              bool
}

// newLockstep returns one that is before the first element. Without to, the copy is the same.
func newLockstep[T any](from, to iter.Seq2[T, error]) *lockstep[T] {
	l := &lockstep[T]{stopTo: func() {}}
	l.from, l.stopFrom = iter.Pull2(from)
	if to != nil {
		l.to, l.stopTo = iter.Pull2(to)
	}
	return l
}

func (l *lockstep[T]) close() {
	l.stopFrom()
	l.stopTo()
}

func (l *lockstep[T]) next() error {
	was, err, more := l.from()
	is, moreTo := was, more
	if l.to != nil {
		var errTo error
		is, errTo, moreTo = l.to()
		err = cmp.Or(err, errTo)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errReference, err)
	}
	l.was, l.is, l.end = was, is, !more || !moreTo
	return nil
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
	if earlier.from.IsZero() || earlier.to.IsZero() {
		return tree.Walk(ctx, t.load, id, func(n *tree.Node) error { return visit(n, earlierNode{}) })
	}
	nodes := func(load tree.Load, id format.ID) iter.Seq2[*tree.Node, error] {
		return walked(func(visit func(*tree.Node) error) error { return tree.Walk(ctx, load, id, visit) })
	}
	var to iter.Seq2[*tree.Node, error]
	if earlier.to != earlier.from {
		to = nodes(t.loadCopy, earlier.to)
	}
	l := newLockstep(nodes(t.loadEarlier, earlier.from), to)
	defer l.close()
	return tree.Walk(ctx, t.load, id, func(n *tree.Node) error {
		for !l.end && (l.was == nil || l.was.Name < n.Name) {
			if err := l.next(); err != nil {
				return err
			}
		}
		a, b := l.was, l.is
		if l.end || a.Name != n.Name || b.Name != n.Name || a.Type != b.Type || a.Size != b.Size || a.ModTime != b.ModTime {
			return visit(n, earlierNode{})
		}
		return visit(n, earlierNode{a, b})
	})
}

// eachChunk visits the chunks of a file. With each comes its ID in the copy if the earlier file had it at the same
// offset; zero if unknown. Files that grow or are written in place keep most of their chunks there.
func (t *transfer) eachChunk(ctx context.Context, n *tree.Node, e earlierNode,
	visit func(tree.Chunk, format.ID) error) error {
	l := &lockstep[tree.Chunk]{end: true}
	if e.from != nil && e.from.Type == tree.File {
		l = newLockstep(chunksOf(ctx, t.loadEarlier, &e.from.Content), chunksOf(ctx, t.loadCopy, &e.to.Content))
		defer l.close()
	}
	at := uint64(0)
	for chunk, err := range chunksOf(ctx, t.load, &n.Content) {
		if err != nil {
			return err
		}
		known := format.ID{}
		if !chunk.IsHole() {
			if known, err = copyOf(l, chunk, at); err != nil {
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

// copyOf returns the ID of a chunk at an offset in the copy, if the earlier file had it there.
func copyOf(l *lockstep[tree.Chunk], c tree.Chunk, at uint64) (id format.ID, err error) {
	for !l.end && l.at+l.was.Len <= at {
		l.at += l.was.Len
		if err := l.next(); err != nil {
			return id, err
		}
		l.end = l.end || l.was.Len != l.is.Len || l.was.Len == 0
	}
	if !l.end && l.at == at && l.was == c {
		id = l.is.ID
	}
	return id, nil
}
