package scan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbers returns n positions with keys below limit.
func numbers(n int, limit uint64) []position {
	random := rand.New(rand.NewPCG(uint64(n), limit))
	p := make([]position, n)
	for i := range p {
		p[i] = position{random.Uint64N(limit), uint32(i)}
	}
	return p
}

func TestPositionsAreSorted(t *testing.T) {
	for n := range 3 * few {
		for _, limit := range []uint64{1, 5, 1 << 63} {
			p := numbers(n, limit)
			want := slices.Clone(p)
			inOrder(p)
			require.True(t, slices.IsSortedFunc(p, byKey))
			inOrder(p) // what is in order already
			require.True(t, slices.IsSortedFunc(p, byKey))
			require.ElementsMatch(t, want, p)
		}
	}
}
