package prune

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRepackWhatFreesMostForItsWork: of packs of 100 bytes, a half-needed one comes before an emptier one of
// compressible data, which must all be compressed again.
func TestRepackWhatFreesMostForItsWork(t *testing.T) {
	const full, text, half, empty = 0, 1, 2, 3
	v := &survey{places: &places{packs: make([]packState, 4)}}
	needs := map[int]uint64{full: 90, text: 40, half: 50, empty: 10}
	for i := range v.packs {
		v.packs[i].size, v.packs[i].raw = 100, needs[i]
	}
	v.packs[text].raw = 400
	packs := []int{full, text, half, empty}
	v.sortByWorth(packs, needs)
	require.Equal(t, []int{empty, half, text, full}, packs)
}
