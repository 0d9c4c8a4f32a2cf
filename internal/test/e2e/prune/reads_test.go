package prune

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// segmentReads prunes, and returns how often an index segment was read that was there before, at the least and at the
// most.
func segmentReads(p *kit.Pruned, opt prune.Options) (least, most int) {
	p.T.Helper()
	before := map[string]bool{}
	for _, name := range kit.EveryFile(p.T, p.Store) {
		before[name.ID] = name.Kind == store.Index
	}
	reads := map[string]int{}
	var mu sync.Mutex
	inner := p.Store
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		mu.Lock()
		defer mu.Unlock()
		if op == "get" && name.Kind == store.Index && before[name.ID] {
			reads[name.ID]++
		}
	}}
	_, err := p.Prune(opt)
	p.Store = inner
	require.NoError(p.T, err)
	counts := slices.Sorted(maps.Values(reads))
	return counts[0], counts[len(counts)-1]
}

// twice makes a snapshot on each of two independent machines. Both store the same files at a time, and each stores some
// of its own beside them. So there are older copies of blobs in packs that are needed for others.
func twice(p *kit.Pruned, seed uint64, own int) (ids [2]format.ID) {
	p.T.Helper()
	ids, _ = twiceApart(p, seed, own)
	return ids
}

// twiceApart is twice. It also returns the files of the first machine.
func twiceApart(p *kit.Pruned, seed uint64, own int) (ids [2]format.ID, first []store.Name) {
	p.T.Helper()
	base, other := p.Store, p.Copied(p.T.(*testing.T))
	for i, machine := range []*kit.Pruned{p, other} {
		for j := range own {
			path := filepath.Join(p.Src, "d1", fmt.Sprintf("own%d", j))
			require.NoError(p.T, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(p.T, os.WriteFile(path, testkit.Noise(1000*(seed+1)+uint64(100*i+j), 500), 0o644))
		}
		ids[i] = machine.Snapshot(seed)
	}
	first = kit.EveryFile(p.T, base)
	for _, name := range kit.EveryFile(p.T, other.Store) {
		if _, err := base.Stat(context.Background(), name); err != nil {
			require.NoError(p.T, base.Put(context.Background(), name, kit.Load(p.T, other.Store, name)))
		}
	}
	maps.Copy(p.Contents, other.Contents)
	return ids, first
}

// TestADryRunSaysWhatAPruneDoes covers blobs with two places, forgotten snapshots, and packs that an earlier prune left
// marked.
func TestADryRunSaysWhatAPruneDoes(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	limits := []prune.Limit{{None: true}, {Percent: 5}, {Percent: 40}, {Bytes: 0}}
	revived, seeds := uint64(0), uint64(testkit.Rounds(2, 4, 8))
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := kit.NewPruned(t, mem.New())
		p.Few = true
		var ids []format.ID
		for i := range uint64(3) {
			made := twice(p, 3*seed+i, 10)
			ids = append(ids, made[:]...)
			gone := rng.IntN(len(ids))
			p.Forget(ids[gone])
			ids = slices.Delete(ids, gone, gone+1)
			opt := kit.SmallPrune()
			opt.MaxUnused = limits[rng.IntN(len(limits))]
			if rng.IntN(2) == 0 { // a writer that a mark has to wait for, and which stores forgotten data again
				ids = append(ids, besideSnapshot(p, func(inner store.Store) {
					other := p.Elsewhere(inner)
					foretell(other, opt)
				}))
			}
			res := foretell(p, opt)
			revived += res.Revived
			p.RequireRestorable("after a prune", true)
		}
		p.RequireSound()
	}
	if testing.Short() {
		return
	}
	require.NotZero(t, revived, "the test meets nothing of what it is about")
}

// foretell prunes after a dry run, which must forecast the prune exactly.
func foretell(p *kit.Pruned, opt prune.Options) *prune.Result {
	p.T.Helper()
	dry := opt
	dry.DryRun = true
	forecast, err := p.Prune(dry)
	require.NoError(p.T, err)
	res, err := p.Prune(opt)
	require.NoError(p.T, err)
	require.Equal(p.T, kit.Foretold(res), kit.Foretold(forecast), "%+v", opt.MaxUnused)
	return res
}

// besideSnapshot makes a snapshot, and does something just before it is put.
func besideSnapshot(p *kit.Pruned, do func(inner store.Store)) format.ID {
	p.T.Helper()
	inner := p.Store
	p.Store = &steps{Store: inner, before: func(op string, name store.Name) {
		if op == "put" && name.Kind == store.Snapshot {
			do(inner)
		}
	}}
	made, _, err := p.Backup(p.SmallJob())
	p.Store = inner
	require.NoError(p.T, err)
	p.Keep(made.ID)
	return made.ID
}

// TestAPruneReadsEachIndexSegmentOnce: it passes through the segments up to six times, and keeps what it has read.
func TestAPruneReadsEachIndexSegmentOnce(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "trash"), testkit.Noise(77, 300_000), 0o644))
	p.Snapshot(2)
	p.Forget(first)
	least, most := segmentReads(p, prune.Options{MaxUnused: prune.Limit{Bytes: 0}})
	require.Equal(t, []int{1, 1}, []int{least, most})
	p.RequireWhole("after the prune")
}
