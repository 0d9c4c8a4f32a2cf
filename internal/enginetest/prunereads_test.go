package enginetest

import (
	"context"
	"fmt"
	"maps"
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

	// Two machines that know nothing of each other store the same files at a time, and each some of its own beside them: of
	// half of the blobs an older copy lies in a pack that is needed for another one.
	p, _, second = build(t)
	base, other := p.st, p.copied(t)
	for i, machine := range []*pruned{p, other} {
		for j := range 40 {
			own := filepath.Join(p.src, "d1", fmt.Sprintf("own%d", j))
			require.NoError(t, os.WriteFile(own, testkit.Noise(uint64(1000*i+j), 500), 0o644))
		}
		machine.snapshot(5)
	}
	for _, name := range everyFile(t, other.st) {
		if _, err := base.Stat(context.Background(), name); err != nil {
			require.NoError(t, base.Put(context.Background(), name, load(t, other.st, name)))
		}
	}
	maps.Copy(p.as, other.as)
	p.forget(second)
	p.segmentReads(dry) // brings the cache up to date
	count(p, only, 5, 7)
	p.requireWhole("with blobs that have two places")
}
