package prune

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// merged is what a prune makes of segments, as weights, and what it writes for that.
func merged(weights []int) (after []int, written int) {
	total := 0
	for _, w := range weights {
		total += w
	}
	heaviest := min(max(total/parts, leastWeight), mostWeight)
	slices.Sort(weights)
	first, _ := slices.BinarySearch(weights, heaviest/2)
	n := worthwhile(weights[:first])
	open := 0
	for _, w := range weights[:n] {
		if open > 0 && open+w > heaviest {
			after, open = append(after, open), 0
		}
		open, written = open+w, written+w
	}
	if open > 0 {
		after = append(after, open)
	}
	return append(after, weights[n:]...), written
}

// TestSegmentsOfAMillionPacks: the segments of 500,000 small backups stay few, with a prune after every 24 of them, and
// what those write is a small multiple of the index. A first backup of 16 TB leaves less than a thousand.
func TestSegmentsOfAMillionPacks(t *testing.T) {
	var weights []int
	rng := rand.New(rand.NewPCG(1, 2))
	total, written, most := 0, 0, 0
	for i := range testkit.Rounds(100_000, 500_000, 500_000) {
		weight := 2*packWeight + 1 + rng.IntN(100)
		weights, total = append(weights, weight), total+weight
		if i%24 == 0 {
			var wrote int
			weights, wrote = merged(weights)
			written, most = written+wrote, max(most, len(weights))
		}
	}
	times := float64(written) / float64(total)
	t.Logf("after a prune %d segments at most; what was written is %.1f times the index", most, times)
	require.LessOrEqual(t, most, 1000)
	require.Less(t, times, 4.0)

	weights = nil
	for range 1_000_000 / 64 {
		weights = append(weights, 64*(packWeight+256))
	}
	weights, _ = merged(weights)
	t.Logf("a million full packs: %d segments", len(weights))
	require.LessOrEqual(t, len(weights), 1000)
	_, wrote := merged(weights)
	require.Zero(t, wrote, "heavy segments stay")
}

func TestWorthwhile(t *testing.T) {
	even := slices.Repeat([]int{10}, fewest)
	half := 5 * fewest
	require.Equal(t, fewest, worthwhile(even))
	require.Zero(t, worthwhile(even[1:]), "too few")
	require.Equal(t, fewest, worthwhile(append(slices.Clone(even), half+1)), "too heavy for the others")
	require.Equal(t, fewest+1, worthwhile(append(slices.Clone(even), half)))
	require.Equal(t, fewest+2, worthwhile(append(slices.Clone(even), half+1, half+2)), "together with others")
	require.Zero(t, worthwhile(nil))
}
