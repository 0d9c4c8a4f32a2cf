package prune

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestCarryFindsEachBlobWhereItCounts: in an index with other numbers, exactly the blobs count that the first survey
// reached. If one is in no pack, or the first index has been closed, not all are found.
func TestCarryFindsEachBlobWhereItCounts(t *testing.T) {
	const packs, blobs = 40, 1000 // more than carry looks up at once
	r := indexed(t, packs, blobs)
	k := segmentReader(r)
	ledger := report.NewJob(report.Prune, time.Now)
	open := func(doomed map[format.ID]bool) *survey {
		p, err := openPlaces(t.Context(), r, k, ledger, index.InMemory, doomed, false)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.close()) })
		return &survey{places: p}
	}
	first := open(map[format.ID]bool{id(3, 1): true})
	reached := func(i int) bool { return i%3 == 0 }
	for i := range packs * blobs {
		at, err := first.index.LocateOne(id(uint64(i), 2))
		require.NoError(t, err)
		if reached(i) {
			first.used.Add(at.Number())
		}
	}
	first.countLive()

	second := open(map[format.ID]bool{id(7, 1): true, id(11, 1): true})
	all, err := second.carry(first.places)
	require.NoError(t, err)
	require.True(t, all)
	for i := range packs * blobs {
		at, err := second.index.LocateOne(id(uint64(i), 2))
		require.NoError(t, err)
		require.Equal(t, reached(i), second.used.Has(at.Number()), i)
	}

	require.NoError(t, r.Store().Delete(t.Context(), object.Named(store.Pack, id(5, 1))))
	third := open(nil)
	all, err = third.carry(first.places)
	require.NoError(t, err)
	require.False(t, all)

	p := &pruner{r: r, reader: k, round: &round{index: index.InMemory}, first: first}
	p.opt.Ledger = ledger
	last, err := p.places(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, last.close()) }()
	require.Nil(t, p.first, "memory holds one index")
	first.used = reach.NewBitset(first.index.Blobs())
	all, err = last.carry(first.places)
	require.NoError(t, err)
	require.False(t, all, "the first index is closed")
}
