package index

import (
	"context"
	"fmt"
	"maps"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// besidesMost bounds how often a run reads the index for other copies of damaged blobs.
const besidesMost = 8

// besides leads to other copies of the blobs of packs in which damage was found. It is read when damage is met, and
// again when another pack is found to be damaged, besidesMost times in all.
type besides struct {
	without map[format.ID]bool
	made    int
	index   *Index // without the damaged packs
	strays  *Index // packs that no segment names: left by a prune that was cut off, or superseded by mistake
}

func (b *besides) close() {
	for _, one := range []*Index{b.index, b.strays} {
		if one != nil {
			one.Close()
		}
	}
	b.index, b.strays = nil, nil
}

// Besides looks for a blob in an index without a pack in which the caller has found damage, and without the packs that
// are marked as damaged, and then in packs that no segment names.
func (x *Index) Besides(ctx context.Context, id, pack format.ID) (at Found, found bool, err error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	b := &x.besides
	if !b.without[pack] {
		if b.made == besidesMost {
			return at, false, nil
		}
		if err := x.makeBesides(ctx, pack); err != nil {
			return at, false, err
		}
	}
	for _, in := range []*Index{b.index, b.strays} {
		if in == nil || err != nil || found {
			break
		}
		at, err = in.Live(ctx).lookupOne(id)
		found = at.besides(pack)
	}
	return at, found, err
}

func (x *Index) makeBesides(ctx context.Context, pack format.ID) error {
	known, _, err := marks.Read(ctx, x.st, x.keys)
	if err != nil {
		return err
	}
	b := &x.besides
	x.note("pack %s is damaged: reading the index of the repository again for other copies of what it held", pack.Short())
	b.close()
	b.made++
	without := map[format.ID]bool{pack: true}
	maps.Copy(without, b.without)
	maps.Copy(without, marks.DamagedPacks(known))
	b.without = without
	opt := x.opt
	opt.Private, opt.Notify = true, func(string) {}
	b.index, b.strays = New(x.st, x.keys, opt), New(x.st, x.keys, opt)
	b.index.presentOnly, b.index.without = true, without
	if err := b.read(ctx); err != nil {
		b.close()
		return fmt.Errorf("read the index for other copies of damaged data: %w", err)
	}
	return nil
}

// read reads the index, and the tables of the packs that no segment names.
func (b *besides) read(ctx context.Context) error {
	if err := b.index.SyncLocal(ctx); err != nil {
		return err
	}
	files, err := b.index.unnamedPacks(ctx, b.without)
	if err != nil {
		return err
	}
	if err := b.strays.Open(); err != nil {
		return err
	}
	return b.strays.rebuildFrom(ctx, files, nil, localOnly)
}
