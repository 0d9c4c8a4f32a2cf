package restore

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// dry counts what real would do. For a survey it also collects what would be lost.
type dry struct{ *walker }

func (x dry) directory(_ context.Context, d *dir, a *action) error {
	d.state, d.instead = absent, a.what == replace
	x.countOld(d.path, a)
	if a.what != leave {
		return nil
	}
	err := x.withDir(d.parent, func(in *localfs.Dir) error { return x.enterExisting(in, d) })
	if err == nil {
		err = x.withDir(d, func(h *localfs.Dir) error { return h.Lstat(".", &localfs.Stat{}) })
	}
	if err == nil {
		return nil
	}
	x.handles.drop(d)
	d.state = absent
	if isDenied(err) {
		return nil // only a real run adds the right to look into it, so its entries are taken for missing
	}
	return err
}

// file counts a file without its holes, which a survey does not look for.
func (x dry) file(ctx context.Context, f *file, a *action) (err error) {
	data := uint64(len(f.node.Content.Inline))
	if x.survey == nil {
		err = f.node.Content.Each(ctx, x.repo.LoadBlob, func(c tree.Chunk, _ uint64) error {
			if !c.IsHole() {
				data += c.Len
			}
			return nil
		})
	}
	if stop := context.Cause(ctx); stop != nil {
		return stop
	}
	if err != nil {
		x.failFile(f, err)
	} else {
		x.countOld(f.path, a)
		x.ledger.Objects.Restored.Add(1)
		x.ledger.Bytes.Restored.Add(f.node.Size)
		x.ledger.Bytes.Written.Add(data)
	}
	x.finishLink(f.link, err == nil)
	x.end(f.dir)
	return nil
}

func (x dry) special(o *entry, a *action) error {
	x.countOld(o.path, a)
	return nil
}

func (x dry) name(o *entry, a *action) error { return x.special(o, a) }

func (x dry) update(*entry, *action) bool { return true }

func (x dry) extra(in *localfs.Dir, name, at string) (uint64, error) {
	n, err := removeTree(in, name, true)
	x.survey.removes(at, n)
	return n, err
}

// countOld counts the object that is replaced.
func (x dry) countOld(path string, a *action) {
	if a.what == replace {
		x.countReplaced(x.changedSince(&a.old))
		x.survey.replaces(path)
	}
}
