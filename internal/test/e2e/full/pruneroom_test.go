package full

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// narrow is a store that has only so much space.
type narrow struct {
	store.Store
	mu    sync.Mutex
	space int64 // left
	least int64 // that was left at any time
	block int64 // a file takes whole blocks of this size; 0: of a byte
}

func (n *narrow) takes(size int64) int64 {
	block := max(n.block, 1)
	return (size + block - 1) / block * block
}

func (n *narrow) Put(ctx context.Context, name store.Name, data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	need := n.takes(int64(len(data)))
	if info, err := n.Stat(ctx, name); err == nil {
		need -= n.takes(info.Size)
	}
	if need > n.space {
		return store.ErrNoSpace
	}
	n.space -= need
	n.least = min(n.least, n.space)
	return n.Store.Put(ctx, name, data)
}

func (n *narrow) PutNew(ctx context.Context, name store.Name, data []byte) (info store.Info, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.Stat(ctx, name); err != nil && int64(len(data)) > n.space {
		return info, store.ErrNoSpace
	}
	if info, err = n.Store.PutNew(ctx, name, data); err == nil {
		n.space -= int64(len(data))
		n.least = min(n.least, n.space)
	}
	return info, err
}

func (n *narrow) Delete(ctx context.Context, name store.Name) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if info, err := n.Stat(ctx, name); err == nil {
		n.space += n.takes(info.Size)
	}
	return n.Store.Delete(ctx, name)
}

// most returns how much space a prune takes before it frees any, on a disk that has enough.
func most(t *testing.T, p *kit.Pruned, opt prune.Options) int64 {
	t.Helper()
	const enough = 1 << 30
	c := p.Copied(t)
	n := &narrow{Store: c.Store, space: enough, least: enough}
	c.Store = n
	_, err := c.Prune(opt)
	require.NoError(t, err)
	return enough - n.least
}

// TestPruneOnAFullDisk: if space runs out, prune first deletes unused packs, then retries the repacking.
func TestPruneOnAFullDisk(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const trash = 900_000
	build := func(t *testing.T, trashed int) *kit.Pruned {
		p := kit.NewPruned(t, mem.New())
		first := p.Snapshot(1)
		require.NoError(t, os.WriteFile(filepath.Join(p.Src, "trash"), testkit.Noise(77, trashed), 0o644))
		second := p.Snapshot(2)
		require.NoError(t, os.Remove(filepath.Join(p.Src, "trash")))
		p.Snapshot(3)
		p.Forget(first, second)
		return p
	}
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{Bytes: 0}
	var said []string
	opt.Note = func(text string) { said = append(said, text) }
	least, err := build(t, trash).Prune(opt) // with all the space that there may be
	require.NoError(t, err)
	require.NotZero(t, least.Repacked.Packs)
	require.NotContains(t, strings.Join(said, "\n"), "the disk is full")

	for _, share := range []int64{10, 4, 2} {
		p := build(t, trash)
		before, inner := kit.BytesOf(t, p.Store, store.Pack), p.Store
		space := max(12_000, most(t, p, opt)/share) // an index segment needs some
		p.Store = &narrow{Store: inner, space: space, block: 512}
		said = nil
		res, err := p.Prune(opt)
		p.Store = inner
		t.Logf("space for %d bytes", space)
		require.NoError(t, err, "space for %d bytes", space)
		require.Contains(t, strings.Join(said, "\n"), "the disk is full")
		require.NotZero(t, res.Repacked.Packs)
		require.Equal(t, uint64(before), res.Before.Bytes)
		require.Zero(t, res.Unused)
		require.Equal(t, before-kit.BytesOf(t, inner, store.Pack) > trash, true)
		require.Zero(t, kit.Count(t, inner, store.Mark))
		p.RequireWhole("after a prune of a full disk")
	}

	// Nothing can go without something being written, for which there is no space.
	p := build(t, 0)
	_, err = p.Prune(prune.Options{MaxUnused: prune.Limit{None: true}})
	require.NoError(t, err)
	before := kit.BytesOf(t, p.Store, store.Pack)
	inner := p.Store
	p.Store = &narrow{Store: inner, space: 12_000}
	_, err = p.Prune(opt)
	p.Store = inner
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.ErrorContains(t, err, "free space")
	require.LessOrEqual(t, kit.BytesOf(t, inner, store.Pack), before, "what was written in vain is taken away")
	p.RequireRestorable("after a prune without space", true)
	_, err = p.Prune(opt)
	require.NoError(t, err)
	p.RequireWhole("with space")
}

// TestPruneRemovesFirstWhatNothingNeeds: however little space there is, a repacked pack does not take what the mark of
// unneeded packs needs.
func TestPruneRemovesFirstWhatNothingNeeds(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const trash, block = 900_000, 512 // a lease and a mark take one block each
	base := kit.NewPruned(t, mem.New())
	base.Few = true
	base.Snapshot(1)
	kit.Written(t, base.Src, map[string]string{"trash/a": string(testkit.Noise(77, trash)), "late": "1"})
	old := base.Snapshot(2)
	require.NoError(t, os.RemoveAll(filepath.Join(base.Src, "trash")))
	base.Snapshot(3)
	base.Forget(old)
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{Bytes: 0}
	for blocks := 2 + most(t, base, opt)/block; blocks >= 2; blocks-- {
		p := base.Copied(t)
		before, inner := kit.BytesOf(t, p.Store, store.Pack), p.Store
		p.Store = &narrow{Store: inner, space: block * blocks, block: block}
		_, err := p.Prune(opt)
		p.Store = inner
		require.Less(t, kit.BytesOf(t, inner, store.Pack), before-trash, "%d blocks: %v", blocks, err)
		p.RequireRestorable("after a prune", true)
	}
}

// leaseOnly is a store that has space for a lease and for nothing else.
type leaseOnly struct{ store.Store }

func (l leaseOnly) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind != store.Lease {
		return store.ErrNoSpace
	}
	return l.Store.Put(ctx, name, data)
}

// TestPruneOnADiskWithoutAnySpace: not even an index segment can be written.
func TestPruneOnADiskWithoutAnySpace(t *testing.T) {
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	p.Forget(p.Snapshot(1))
	p.Snapshot(2)
	inner := p.Store
	for _, limit := range []prune.Limit{{None: true}, {Bytes: 0}} {
		p.Store = leaseOnly{inner}
		opt := kit.SmallPrune()
		opt.MaxUnused = limit
		_, err := p.Prune(opt)
		p.Store = inner
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "enlarge it")
		p.RequireRestorable("nothing could be done", true)
	}
	_, err := p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	p.RequireWhole("with space")
}

// fewPacks is a store with space for a number of packs, and for all other files.
type fewPacks struct {
	store.Store
	left atomic.Int64
}

func (f *fewPacks) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack && f.left.Add(-1) < 0 {
		return store.ErrNoSpace
	}
	return f.Store.Put(ctx, name, data)
}

// TestPruneDeletesItsUnusedPacks: a prune that ran out of space while repacking leaves less than there was. It also
// leaves nothing that keeps the next prune, with space, from removing all there is to remove.
func TestPruneDeletesItsUnusedPacks(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{Bytes: 0}
	opt.Tuning.Segment = 100 // no segment is full, which would be put there and then
	for packs := range int64(5) {
		p := kit.NewPruned(t, mem.New())
		first := p.Snapshot(1)
		require.NoError(t, os.WriteFile(filepath.Join(p.Src, "trash"), testkit.Noise(77, 900_000), 0o644))
		second := p.Snapshot(2)
		require.NoError(t, os.Remove(filepath.Join(p.Src, "trash")))
		p.Snapshot(3)
		p.Forget(first, second)
		before, inner := kit.BytesOf(t, p.Store, store.Pack), p.Store
		short := &fewPacks{Store: inner}
		short.left.Store(packs)
		p.Store = short
		_, err := p.Prune(opt)
		p.Store = inner
		if err != nil {
			require.ErrorIs(t, err, store.ErrNoSpace)
		}
		require.Less(t, kit.BytesOf(t, inner, store.Pack), before-900_000, "with space for %d packs", packs)
		p.RequireRestorable("after a prune that ran out of space", true)
		_, err = p.Prune(opt)
		require.NoError(t, err)
		p.RequireWhole("with space")
	}
}

// noIndex is a store without space for an index segment.
type noIndex struct{ store.Store }

func (s noIndex) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Index {
		return store.ErrNoSpace
	}
	return s.Store.Put(ctx, name, data)
}

// TestAPruneThatRemovesPacksFirstIsCutOff: there is no space for an index segment even after packs were removed. Until
// a prune has removed them from the index, nothing is missing, and backups do not rely on them.
func TestAPruneThatRemovesPacksFirstIsCutOff(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	trash := filepath.Join(p.Src, "trash")
	require.NoError(t, os.WriteFile(trash, testkit.Noise(77, 400_000), 0o644))
	second := p.Snapshot(2)
	require.NoError(t, os.Remove(trash))
	p.Snapshot(3)
	p.Forget(first, second)
	before, inner := kit.BytesOf(t, p.Store, store.Pack), p.Store
	opt := kit.SmallPrune()
	opt.MaxUnused = prune.Limit{None: true}
	p.Store = noIndex{inner}
	for range 2 { // the second one goes on
		_, err := p.Prune(opt)
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.Less(t, kit.BytesOf(t, inner, store.Pack), before-300_000)
		require.NotZero(t, kit.Count(t, inner, store.Mark))
	}
	p.Store = inner
	require.NotEmpty(t, missing(p), "the index still names what was removed")
	p.RequireWhole("while the index names packs that are gone")
	require.NoError(t, os.WriteFile(trash, testkit.Noise(77, 400_000), 0o644))
	p.Snapshot(4) // needs what was removed
	p.RequireWhole("after a backup")
	_, err := p.Prune(opt)
	require.NoError(t, err)
	require.Empty(t, missing(p))
	require.Zero(t, kit.Count(t, p.Store, store.Mark))
	p.RequireWhole("after a prune with space")
}

// missing returns the packs that the index names and that do not exist.
func missing(p *kit.Pruned) (packs []format.ID) {
	p.T.Helper()
	ctx := context.Background()
	require.NoError(p.T, p.With(func(r *repo.Repository) error {
		for _, name := range kit.EveryFile(p.T, p.Store) {
			if name.Kind != store.Index {
				continue
			}
			plain, err := object.Load(ctx, p.Store, r.Keys(), name, -1)
			require.NoError(p.T, err)
			seg, err := index.Decode(plain)
			require.NoError(p.T, err)
			for i := range seg.Packs {
				if _, err := p.Store.Stat(ctx, object.Named(store.Pack, seg.Packs[i].ID)); err != nil {
					packs = append(packs, seg.Packs[i].ID)
				}
			}
		}
		return nil
	}))
	return packs
}
