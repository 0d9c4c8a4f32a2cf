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

// besides is an index without the packs in which damage was found: it leads to other copies of their blobs. It is read
// when damage is met, and again when another pack is found to be damaged, besidesMost times in all.
type besides struct {
	without map[format.ID]bool
	made    int
	index   *Index
}

// Besides calls lookup with an index without a pack in which the caller has found damage, and without the packs that
// are marked as damaged. It returns false if there is no such index.
func (x *Index) Besides(ctx context.Context, pack format.ID, lookup func(Source) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	b := &x.besides
	if !b.without[pack] {
		if b.made == besidesMost {
			return false, nil
		}
		if err := x.makeBesides(ctx, pack); err != nil {
			return false, err
		}
	}
	if b.index == nil {
		return false, nil
	}
	return lookup(b.index.Live(ctx))
}

func (x *Index) makeBesides(ctx context.Context, pack format.ID) error {
	known, _, err := marks.Read(ctx, x.st, x.keys)
	if err != nil {
		return err
	}
	b := &x.besides
	x.note("pack %s is damaged: reading the index of the repository again for other copies of what it held", pack.Short())
	if b.index != nil {
		b.index.Close()
		b.index = nil
	}
	b.made++
	without := map[format.ID]bool{pack: true}
	maps.Copy(without, b.without)
	for id := range marks.DamagedPacks(known) {
		without[id] = true
	}
	b.without = without
	opt := x.opt
	opt.Private = true
	other := New(x.st, x.keys, x.repo, opt)
	other.presentOnly, other.without = true, without
	if err := other.SyncLocal(ctx); err != nil {
		other.Close()
		return fmt.Errorf("read the index for other copies of damaged data: %w", err)
	}
	b.index = other
	return nil
}
