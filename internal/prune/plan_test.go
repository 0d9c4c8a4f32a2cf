package prune

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// packOf is a pack of 100 bytes.
func packOf(n byte, needed, raw uint64) planned {
	return planned{&packState{id: format.ID{n}, size: 100}, needed, raw}
}

func numbers(packs []planned) (numbers []byte) {
	for _, t := range packs {
		numbers = append(numbers, t.id[0])
	}
	return numbers
}

// TestRepackWhatFreesMostForItsWork: a half-needed pack comes before an emptier one of compressible data, which must
// all be compressed again.
func TestRepackWhatFreesMostForItsWork(t *testing.T) {
	const full, text, half, empty = 0, 1, 2, 3
	packs := []planned{packOf(full, 90, 90), packOf(text, 40, 400), packOf(half, 50, 50), packOf(empty, 10, 10)}
	chosen, unused, postponed := choose(packs, 0, 0, Limit{}, 0)
	require.Equal(t, []byte{empty, half, text, full}, numbers(chosen))
	require.Zero(t, unused)
	require.False(t, postponed)
}

// TestPlan: what is unused is at most the limit of what is used, and a round writes no more than it has space for,
// except for its first pack.
func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		whole, unread uint64
		limit         Limit
		atMost        uint64
		chosen        []byte
		unused        uint64
		postponed     bool
	}{
		"everything":            {chosen: []byte{1, 2, 3}},
		"no limit":              {limit: Limit{None: true}, unused: 150},
		"just allowed":          {limit: Limit{Bytes: 150}, unused: 150},
		"one byte too many":     {limit: Limit{Bytes: 149}, chosen: []byte{1}, unused: 60},
		"a share of all":        {whole: 850, limit: Limit{Percent: 6}, chosen: []byte{1}, unused: 60},
		"what cannot be read":   {unread: 7, limit: Limit{Bytes: 66}, chosen: []byte{1, 2}, unused: 17},
		"no space for one":      {atMost: 1, chosen: []byte{1}, unused: 60, postponed: true},
		"space for the smaller": {atMost: 60, chosen: []byte{1, 2}, unused: 10, postponed: true},
	} {
		packs := []planned{packOf(3, 90, 90), packOf(2, 50, 50), packOf(1, 10, 10)}
		chosen, unused, postponed := choose(packs, c.whole, c.unread, c.limit, c.atMost)
		require.Equal(t, c.chosen, numbers(chosen), name)
		require.Equal(t, c.unused, unused, name)
		require.Equal(t, c.postponed, postponed, name)
	}
}

// TestPlanWithout: a pack that must stay leaves the plan, and its unused bytes are unused.
func TestPlanWithout(t *testing.T) {
	before := plan{
		remove: []planned{packOf(1, 0, 0), packOf(2, 0, 0)},
		repack: []planned{packOf(3, 30, 30), packOf(4, 40, 40)},
		unused: 5,
	}
	after := before.without(func(id format.ID) bool { return id[0] == 2 || id[0] == 3 })
	require.Equal(t, []byte{1}, numbers(after.remove))
	require.Equal(t, []byte{4}, numbers(after.repack))
	require.EqualValues(t, 75, after.unused)
	require.Equal(t, []byte{1, 2}, numbers(before.remove), "a plan is a value")
	require.Equal(t, []byte{3, 4}, numbers(before.repack))
	require.EqualValues(t, 5, before.unused)
}
