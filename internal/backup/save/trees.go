package save

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Entries are the entries of a directory whose tree is built, sorted by name.
type Entries interface {
	// Name returns the name of entry i; ok is false behind the last one.
	Name(i int) (name string, ok bool)
	// Node fills n with entry i, and reports whether it belongs in the tree. old is the node of that name in the old tree,
	// nil if there is none.
	Node(i int, old, n *tree.Node) (keep bool, err error)
	// Rejected is called with a node that has no place in a tree, and the reason. It reports whether it changed n so that
	// adding it again can succeed; if not, the entry is left out.
	Rejected(n *tree.Node, reason error) (again bool)
}

// OldTreeError is a failure to follow the old tree.
type OldTreeError struct{ Err error }

func (e *OldTreeError) Error() string { return "follow the old tree: " + e.Err.Error() }

// Unwrap returns the failure.
func (e *OldTreeError) Unwrap() error { return e.Err }

// Tree builds the tree of a directory and returns its ID. It reads the old tree beside the entries, since both are
// sorted. A zero old stands for none.
func (s *Saver) Tree(ctx context.Context, load tree.Load, old format.ID, entries Entries) (format.ID, error) {
	s.storing.RLock()
	defer s.storing.RUnlock()
	return s.TreeWhilePaused(ctx, load, old, entries)
}

// TreeWhilePaused is Tree between Pause and Resume.
func (s *Saver) TreeWhilePaused(ctx context.Context, load tree.Load, old format.ID, entries Entries,
) (format.ID, error) {
	w := s.treeWriter()
	defer s.trees.Put(w)
	return w.build(ctx, load, old, entries)
}

// treeWriter makes tree pages. Any goroutine may finish a directory, so writers are lent: there are as many as
// directories that are finished at the same time.
type treeWriter struct {
	saver   *Saver
	builder *tree.Builder
	hasher  *seal.Hasher
	node    tree.Node
}

// treeWriter lends a writer, which the caller puts back into s.trees.
func (s *Saver) treeWriter() *treeWriter {
	if w, ok := s.trees.Get().(*treeWriter); ok {
		return w
	}
	w := &treeWriter{saver: s, hasher: s.Keys.Hasher()}
	w.builder = tree.NewBuilder(w.emit)
	return w
}

// emit stores a page unless the repository has it.
func (w *treeWriter) emit(page []byte) (format.ID, error) {
	id := w.hasher.ID(page)
	fresh, err := w.saver.Session.Put(pack.Trees, id, page)
	if fresh {
		w.saver.Ledger.Bytes.Trees.Add(uint64(len(page)))
		w.saver.Ledger.Bytes.Processed.Add(uint64(len(page)))
	}
	return id, err
}

func (w *treeWriter) build(ctx context.Context, load tree.Load, root format.ID, entries Entries) (format.ID, error) {
	w.builder.Reset()
	i := 0
	if !root.IsZero() {
		err := tree.Walk(ctx, load, root, func(old *tree.Node) error {
			name, ok := entries.Name(i)
			for ; ok && name < old.Name; name, ok = entries.Name(i) {
				if err := w.add(entries, i, nil); err != nil {
					return err
				}
				i++
			}
			if !ok || name != old.Name {
				return nil
			}
			i++
			return w.add(entries, i-1, old)
		})
		if err != nil {
			return format.ID{}, &OldTreeError{err}
		}
	}
	for ; ; i++ {
		if _, ok := entries.Name(i); !ok {
			return w.builder.Finish()
		}
		if err := w.add(entries, i, nil); err != nil {
			return format.ID{}, err
		}
	}
}

// add appends entry i, or leaves it out.
func (w *treeWriter) add(entries Entries, i int, old *tree.Node) error {
	keep, err := entries.Node(i, old, &w.node)
	if err != nil || !keep {
		return err
	}
	for {
		err := w.builder.Add(&w.node)
		if !errors.Is(err, tree.ErrTooLarge) && !errors.Is(err, tree.ErrInvalid) {
			return err
		}
		if !entries.Rejected(&w.node, err) {
			return nil
		}
	}
}

// Single builds the tree of a directory with one entry.
func (s *Saver) Single(n *tree.Node) (format.ID, error) {
	w := s.treeWriter()
	defer s.trees.Put(w)
	w.builder.Reset()
	if err := w.builder.Add(n); err != nil {
		return format.ID{}, err
	}
	return w.builder.Finish()
}
