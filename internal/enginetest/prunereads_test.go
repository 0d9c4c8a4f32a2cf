package enginetest

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
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// segmentReads prunes, and returns how often an index segment was read that was there before, at the least and at the most.
func (p *pruned) segmentReads(opt prune.Options) (least, most int) {
	p.t.Helper()
	before := map[string]bool{}
	for _, name := range everyFile(p.t, p.st) {
		before[name.ID] = name.Kind == store.Index
	}
	reads := map[string]int{}
	var mu sync.Mutex
	inner := p.st
	p.st = &steps{Store: inner, before: func(op string, name store.Name) {
		mu.Lock()
		defer mu.Unlock()
		if op == "get" && name.Kind == store.Index && before[name.ID] {
			reads[name.ID]++
		}
	}}
	_, err := p.prune(opt)
	p.st = inner
	require.NoError(p.t, err)
	counts := slices.Sorted(maps.Values(reads))
	return counts[0], counts[len(counts)-1]
}

// twice makes a snapshot on each of two machines that know nothing of each other: both store the same files at a time, and
// each so many of its own beside them. So there are older copies of blobs in packs that are needed for others.
func (p *pruned) twice(seed uint64, own int) (ids [2]format.ID) {
	p.t.Helper()
	base, other := p.st, p.copied(p.t.(*testing.T))
	for i, machine := range []*pruned{p, other} {
		for j := range own {
			path := filepath.Join(p.src, "d1", fmt.Sprintf("own%d", j))
			require.NoError(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(p.t, os.WriteFile(path, testkit.Noise(1000*(seed+1)+uint64(100*i+j), 500), 0o644))
		}
		ids[i] = machine.snapshot(seed)
	}
	for _, name := range everyFile(p.t, other.st) {
		if _, err := base.Stat(context.Background(), name); err != nil {
			require.NoError(p.t, base.Put(context.Background(), name, load(p.t, other.st, name)))
		}
	}
	maps.Copy(p.as, other.as)
	return ids
}

// TestADryRunSaysWhatAPruneDoes: whatever has two places, whatever is forgotten and whatever an earlier prune left marked.
func TestADryRunSaysWhatAPruneDoes(t *testing.T) {
	limits := []prune.Limit{{None: true}, {Percent: 5}, {Percent: 40}, {Bytes: 0}}
	held, pardoned, seeds := uint64(0), uint64(0), uint64(8)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := newPruned(t, mem.New())
		p.few = true
		var ids []format.ID
		for i := range uint64(3) {
			made := p.twice(3*seed+i, 10)
			ids = append(ids, made[:]...)
			gone := rng.IntN(len(ids))
			p.forget(ids[gone])
			ids = slices.Delete(ids, gone, gone+1)
			opt := smallPrune()
			opt.MaxUnused = limits[rng.IntN(len(limits))]
			if rng.IntN(2) == 0 { // a writer that a mark has to wait for, and which brings back what was forgotten
				ids = append(ids, p.besideSnapshot(func(inner store.Store) {
					other := &pruned{engine: &engine{t: t, st: inner, par: p.par, open: p.open}}
					other.open.CacheDir = t.TempDir()
					other.foretell(opt)
				}))
			}
			res := p.foretell(opt)
			held, pardoned = held+res.Held, pardoned+res.Pardoned
			p.requireRestorable("after a prune", true)
		}
		p.requireSound()
	}
	if testing.Short() {
		return
	}
	require.NotZero(t, held, "the test meets nothing of what it is about")
	require.NotZero(t, pardoned)
}

// foretell prunes after a dry run, which must say what the prune then does.
func (p *pruned) foretell(opt prune.Options) *prune.Result {
	p.t.Helper()
	dry := opt
	dry.DryRun = true
	forecast, err := p.prune(dry)
	require.NoError(p.t, err)
	res, err := p.prune(opt)
	require.NoError(p.t, err)
	require.Equal(p.t, foretold(res), foretold(forecast), "%+v", opt.MaxUnused)
	return res
}

// besideSnapshot makes a snapshot, and does something just before it is put.
func (p *pruned) besideSnapshot(do func(inner store.Store)) format.ID {
	p.t.Helper()
	inner := p.st
	p.st = &steps{Store: inner, before: func(op string, name store.Name) {
		if op == "put" && name.Kind == store.Snapshot {
			do(inner)
		}
	}}
	made, _, err := p.backup(p.smallJob())
	p.st = inner
	require.NoError(p.t, err)
	p.keep(made.ID)
	return made.ID
}

// TestHowOftenAPruneReadsTheIndex counts what docs/prune.md says.
func TestHowOftenAPruneReadsTheIndex(t *testing.T) {
	only := prune.Options{MaxUnused: prune.Limit{None: true}}
	anew := prune.Options{MaxUnused: prune.Limit{Bytes: 0}}
	dry := anew
	dry.DryRun = true
	build := func(t *testing.T) (p *pruned, first, second format.ID) {
		p = newPruned(t, mem.New())
		first = p.snapshot(1)
		require.NoError(t, os.WriteFile(filepath.Join(p.src, "trash"), testkit.Noise(77, 300_000), 0o644))
		return p, first, p.snapshot(2)
	}
	count := func(p *pruned, opt prune.Options, least, most int) {
		t.Helper()
		from, to := p.segmentReads(opt)
		require.Equal(t, []int{least, most}, []int{from, to}, "%+v", opt)
	}
	p, first, second := build(t)
	count(p, only, 2, 2) // nothing to do
	p.forget(second)
	count(p, dry, 2, 2)
	count(p, only, 4, 5)
	p.snapshot(3)
	p.forget(first)
	count(p, dry, 3, 3)
	count(p, anew, 6, 7)
	p.requireWhole("after the prunes")

	p, _, second = build(t)
	p.twice(5, 40)
	p.forget(second)
	p.segmentReads(dry) // brings the cache up to date
	count(p, only, 5, 7)
	p.requireWhole("with blobs that have two places")
}
