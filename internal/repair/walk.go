package repair

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// walker follows snapshots, records what they have lost, and stores their trees without it.
type walker struct {
	*rewrite.Walker
	k        *rewrite.Keeper
	snapshot format.ID // that is examined
	losses   *Losses
}

func newWalker(k *rewrite.Keeper, losses *Losses) *walker {
	w := &walker{k: k, losses: losses}
	w.Walker = rewrite.NewWalker(k, func(path string) { losses.add(w.snapshot, path) })
	return w
}

// rewrite stores a damaged directory without the lost data, and returns the new one. Files that lost data, and
// directories that lost entries, keep their names and are marked as not readable. partial reports that the directory
// itself lost entries.
func (w *walker) rewrite(ctx context.Context, id format.ID) (_ format.ID, partial bool, err error) {
	return w.k.Directory(ctx, id, func(n *tree.Node) (bool, error) { return true, w.rewriteNode(ctx, n) })
}

func (w *walker) rewriteNode(ctx context.Context, n *tree.Node) error {
	if n.Type != tree.Dir {
		lost, err := w.Loses(ctx, n)
		if lost {
			n.Outcome, n.Content = tree.Unreadable, tree.Content{}
		}
		return err
	}
	if w.Clean(n.Subtree) {
		return nil
	}
	fresh, partial, err := w.rewrite(ctx, n.Subtree)
	if n.Subtree = fresh; partial {
		n.Outcome = tree.Unreadable
	}
	return err
}
