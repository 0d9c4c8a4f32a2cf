package restore

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/same"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// verify reads every restored file back and compares it with the snapshot.
func (j *job) verify(ctx context.Context) error {
	clock := j.ledger.Worker("verifier")
	defer clock.Stop()
	clock.Enter(report.Read)
	ctx = clock.Within(ctx)
	root, at, top := j.sel.Tree, "/", &dir{path: "/"}
	defer j.leave(top)
	for _, name := range strings.FieldsFunc(j.sel.Sub, func(r rune) bool { return r == '/' }) {
		n, err := tree.Lookup(ctx, j.repo.LoadBlob, root, name)
		if err != nil {
			return err
		}
		if n.Type != tree.Dir {
			j.verifyFile(ctx, top, n, path.Join(at, name), j.repo.Keys().Hasher())
			return context.Cause(ctx)
		}
		root, at = n.Subtree, path.Join(at, name)
	}
	top.path = at
	return j.verifyDir(ctx, top, root, j.repo.Keys().Hasher())
}

func (j *job) verifyDir(ctx context.Context, d *dir, root format.ID, h *seal.Hasher) error {
	err := tree.Walk(ctx, j.repo.LoadBlob, root, func(n *tree.Node) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		here, take, enter := path.Join(d.path, n.Name), true, true
		if j.sel.Take != nil {
			take, enter = j.sel.Take(here, n.Type)
		}
		switch {
		case n.Type == tree.File && take && n.Outcome < tree.Skipped:
			j.verifyFile(ctx, d, n, here, h)
		case n.Type == tree.Dir && enter:
			sub := &dir{parent: d, name: n.Name, path: here}
			defer j.leave(sub)
			if err := j.in(sub, func(*localfs.Dir) error { return nil }); err != nil {
				if take || !errors.Is(err, localfs.ErrVanished) { // not made if nothing went into it
					j.tell(here, "verify", err)
				}
				return nil
			}
			return j.verifyDir(ctx, sub, n.Subtree, h)
		}
		return nil
	})
	if err != nil && context.Cause(ctx) == nil && damage.Partial(err) {
		return nil // told when it was restored
	}
	return err
}

func (j *job) verifyFile(ctx context.Context, d *dir, n *tree.Node, at string, h *seal.Hasher) {
	var f *localfs.File
	err := j.in(d, func(in *localfs.Dir) (err error) {
		f, err = access.Open(in, n.Name)
		return err
	})
	if err == nil {
		defer f.Close()
		err = same.Content(ctx, j.repo.LoadBlob, f, n, h)
	}
	if err != nil {
		if errors.Is(err, same.ErrDiffers) && j.spared(f, n) {
			return // it was left as it was on purpose
		}
		j.tell(at, "verify", err)
		return
	}
	j.ledger.Objects.Verified.Add(1)
	j.ledger.Bytes.Verified.Add(n.Size)
}

// spared reports whether the open file can be one that the overwrite rule left as it was, other than n. What a restore has
// written has the size and the time of the snapshot.
func (j *job) spared(f *localfs.File, n *tree.Node) bool {
	st := f.Opened()
	return j.trusting() && (st.Size != n.Size || st.Mtime != n.ModTime)
}
