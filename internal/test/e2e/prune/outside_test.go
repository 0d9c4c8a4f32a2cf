package prune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repair"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// damagedBesideOutside leaves a repository as a prune does that was killed before it removed the packs that it has
// repacked: they are in no index. Then each pack that the prune has stored is damaged, which is returned.
func damagedBesideOutside(t *testing.T) (p *kit.Pruned, damaged []format.ID) {
	t.Helper()
	ctx := context.Background()
	var before store.Store
	for seed, written := uint64(1), uint64(0); written == 0; seed += 2 { // the packs may happen to hold what goes together
		require.Less(t, seed, uint64(20), "a prune that writes a pack")
		p = kit.NewPruned(t, mem.New())
		first := p.Snapshot(seed)
		p.Snapshot(seed + 1)
		p.Forget(first)
		before = kit.CopyOf(t, p.Store)
		opt := kit.SmallPrune()
		opt.MaxUnused = prune.Limit{}
		res, err := p.Prune(opt)
		require.NoError(t, err)
		written = uint64(res.Written.Packs)
	}
	for _, name := range kit.EveryFile(t, p.Store) {
		if _, err := before.Stat(ctx, name); name.Kind != store.Pack || err == nil {
			continue
		}
		data := kit.Load(t, p.Store, name)
		data[pack.HeaderSize+20] ^= 1
		require.NoError(t, p.Store.Put(ctx, name, data))
		id, err := format.ParseID(name.ID)
		require.NoError(t, err)
		damaged = append(damaged, id)
	}
	for _, name := range kit.EveryFile(t, before) {
		if name.Kind == store.Pack {
			require.NoError(t, p.Store.Put(ctx, name, kit.Load(t, before, name)))
		}
	}
	return p, damaged
}

// TestPacksOutsideTheIndexAreRead: a restore finds what it needs in packs that no index segment names, where those that
// replaced them are damaged.
func TestPacksOutsideTheIndexAreRead(t *testing.T) {
	t.Parallel()
	p, damaged := damagedBesideOutside(t)
	require.NotEmpty(t, damaged)
	p.RequireRestorable("from packs in no index", true)
	p.RequireRestorable("from packs in no index", false)
}

// TestRepairsUsePacksOutsideTheIndex: no repair takes for lost what such a pack has, and a prune may follow.
func TestRepairsUsePacksOutsideTheIndex(t *testing.T) {
	t.Parallel()
	p, damaged := damagedBesideOutside(t)
	require.NoError(t, p.With(func(r *repo.Repository) error {
		_, err := r.RecordDamage(context.Background(), "test", damaged)
		return err
	}))
	for range 2 {
		require.NoError(t, p.With(func(r *repo.Repository) error {
			packs, err := repair.Packs(context.Background(), r, nil, repo.SessionOptions{})
			require.NoError(t, err)
			require.Zero(t, packs.Losses)
			snapshots, err := repair.Snapshots(context.Background(), r, repair.SnapshotOptions{})
			require.NoError(t, err)
			require.Empty(t, snapshots.Replaced)
			return nil
		}))
	}
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("after repairs and a prune")
}
