package scan

import (
	"cmp"
	"fmt"
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

func byKey(a, b position) int { return cmp.Compare(a.key, b.key) }

func TestPositionsAreSorted(t *testing.T) {
	var spare []position
	for _, n := range []int{0, 1, 2, 3, few - 1, few, few + 1, 100, 50, 1000, 70_000} {
		for _, limit := range []uint64{1, 5, 1 << 20, 1 << 63} {
			p := numbers(n, limit)
			want := slices.Clone(p)
			slices.SortStableFunc(want, byKey)
			p, spare = inOrder(p, spare)
			require.Equal(t, want, p)
			p, spare = inOrder(p, spare) // what is in order already
			require.Equal(t, want, p)
		}
	}
	p := numbers(200, 1<<40)
	again := numbers(200, 1<<60)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		copy(p, again)
		p, spare = inOrder(p, spare)
	}))
}

// BenchmarkOrder sorts numbers like those of inodes, here and by the library.
func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{10, 50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			from := numbers(n, 1<<22)
			p, spare := slices.Clone(from), make([]position, n)
			for b.Loop() {
				copy(p, from)
				p, spare = inOrder(p, spare)
			}
		})
		b.Run(fmt.Sprint(n, "/library"), func(b *testing.B) {
			from := numbers(n, 1<<22)
			p := slices.Clone(from)
			for b.Loop() {
				copy(p, from)
				slices.SortFunc(p, byKey)
			}
		})
	}
}
