package restore

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// verify reads every restored file and compares it with the snapshot.
func (j *job) verify(ctx context.Context, w *walker) error {
	clock := j.ledger.Worker("verifier")
	defer clock.Stop()
	clock.Enter(report.Read)
	ctx = clock.Within(ctx)
	top, hasher := &dir{path: w.root.path}, j.repo.Keys().Hasher()
	defer j.doneReading(top)
	if w.only != nil {
		j.verifyFile(ctx, top, w.only, top.pathOf(w.only), hasher)
		return context.Cause(ctx)
	}
	return j.verifyDir(ctx, top, w.root.node.Subtree, hasher)
}

func (j *job) verifyDir(ctx context.Context, d *dir, root format.ID, h *seal.Hasher) error {
	err := tree.Walk(ctx, j.repo.LoadBlob, root, func(n *tree.Node) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		here := d.pathOf(n)
		take, enter := j.sel.takes(d, n)
		switch {
		case n.Type == tree.File && take && n.Outcome < tree.Skipped:
			j.verifyFile(ctx, d, n, here, h)
		case n.Type == tree.Dir && enter:
			sub := &dir{parent: d, node: *n, path: here}
			defer j.doneReading(sub)
			if err := j.withDir(sub, func(*localfs.Dir) error { return nil }); err != nil {
				if take || !errors.Is(err, localfs.ErrVanished) { // directories without restored entries are not made
					j.fail(here, "verify", err)
				}
				return nil
			}
			return j.verifyDir(ctx, sub, n.Subtree, h)
		}
		return nil
	})
	if err != nil && context.Cause(ctx) == nil && repo.IsPartial(err) {
		return nil // reported during the restore
	}
	return err
}

func (j *job) verifyFile(ctx context.Context, d *dir, n *tree.Node, at string, h *seal.Hasher) {
	var e *localfs.Entry
	var f *localfs.File
	err := j.withDir(d, func(in *localfs.Dir) (err error) {
		if e, err = in.Pin(n.Name, tree.File); err != nil {
			return err
		}
		if f, err = openReadable(e); err != nil {
			e.Close()
		}
		return err
	})
	if err == nil {
		defer e.Close()
		err = j.compare(ctx, f, n, h)
	}
	if err != nil {
		if errors.Is(err, view.ErrDiffers) && j.keptByRule(f, n) {
			return // the overwrite rule kept it
		}
		j.fail(at, "verify", err)
		return
	}
	j.ledger.Objects.Verified.Add(1)
	j.ledger.Bytes.Verified.Add(n.Size)
}

// compare compares an open file with a node.
func (j *job) compare(ctx context.Context, f *localfs.File, n *tree.Node, h *seal.Hasher) error {
	if f.Opened().Size != n.Size {
		return view.ErrDiffers
	}
	return view.Compare(ctx, j.repo.LoadBlob, h, n, f)
}

// keptByRule reports whether the overwrite rule may have kept the open file instead of n. Restored files have the size
// and time of the snapshot.
func (j *job) keptByRule(f *localfs.File, n *tree.Node) bool {
	st := f.Opened()
	return j.keepsUnread() && (st.Size != n.Size || st.Mtime != n.ModTime)
}
