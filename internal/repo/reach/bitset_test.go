package reach

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBitset compares counts over odd ranges with counting one by one.
func TestBitset(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := NewBitset(1000)
	for range 300 {
		b.Add(rng.Uint64N(1000))
	}
	for range 1000 {
		from := rng.Uint64N(1000)
		n := rng.Uint64N(1000 - from + 1)
		want := uint64(0)
		for i := from; i < from+n; i++ {
			if b.Has(i) {
				want++
			}
		}
		require.Equal(t, want, b.Count(from, uint32(n)))
	}
}
