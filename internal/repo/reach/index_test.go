package reach

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

func emptyIndex(t testing.TB, ranks int) *Index {
	t.Helper()
	dir := t.TempDir()
	x := NewIndex(func() (*blobindex.Temporary, error) { return blobindex.OpenTemporary(dir, localfs.IOContext{}) },
		ranks)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// blobID is the n-th of IDs that spread evenly.
func blobID(n int) (id format.ID) {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rng.Uint64())
	}
	return id
}

// packOf is a pack of one frame with the blobs from first on.
func packOf(first, n int) index.Pack {
	frame := pack.Frame{Offset: pack.HeaderSize, Sealed: 1000}
	for i := range n {
		frame.Blobs = append(frame.Blobs, pack.Blob{ID: blobID(first + i), Len: 10})
	}
	return index.Pack{ID: blobID(-1 - first), Size: 5000, Table: pack.Table{Kind: pack.Trees, Frames: []pack.Frame{frame}}}
}

// TestLowestRankCounts: a blob in packs of several ranks is found in that of the lowest, whichever was added first.
// Over all ranks no two blobs have the same number.
func TestLowestRankCounts(t *testing.T) {
	const low, middle, high = 0, 1, 2
	x := emptyIndex(t, 4)
	add := func(rank int, packs ...index.Pack) {
		first, err := x.Add(rank, packs)
		require.NoError(t, err)
		require.Len(t, first, len(packs))
	}
	add(high, packOf(0, 40))
	add(middle, packOf(10, 20))
	add(low, packOf(0, 10), packOf(15, 5))
	add(high)
	ids := make([]format.ID, 50)
	for i := range ids {
		ids[i] = blobID(i)
	}
	var q Query
	places, err := x.Locate(&q, ids)
	require.NoError(t, err)
	seen := NewBitset(x.Blobs())
	for i := range places {
		at := &places[i]
		want := low
		switch {
		case i >= 40:
			require.True(t, at.Lost())
			continue
		case i >= 30:
			want = high
		case i >= 10 && (i < 15 || i >= 20):
			want = middle
		}
		require.False(t, at.Lost())
		require.Equal(t, want, at.Rank(), "blob %d", i)
		require.True(t, seen.Add(at.Number()), "blob %d has the number of another", i)
	}
	met := map[uint64]format.ID{}
	require.NoError(t, x.Each(func(id format.ID, number uint64) error {
		met[number] = id
		return nil
	}))
	require.Len(t, met, 40+20+15)
	for i := range 40 {
		require.Equal(t, ids[i], met[places[i].Number()])
	}
	replaced, err := x.Replaced(high)
	require.NoError(t, err)
	require.Zero(t, replaced)
	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
}

// TestMemoryOfADirectory: a visited directory takes one bit, and a tenth of a byte leads to its place. A lookup
// allocates nothing.
func TestMemoryOfADirectory(t *testing.T) {
	const packs, dirs = 100, 2000
	x := emptyIndex(t, 2)
	before := heap()
	for i := range packs {
		_, err := x.Add(0, []index.Pack{packOf(i*dirs, dirs)})
		require.NoError(t, err)
	}
	ids := []format.ID{blobID(1), blobID(7000), blobID(90_000)}
	var q Query
	seen := NewBitset(x.Blobs())
	lookUp := func() {
		places, err := x.Locate(&q, ids)
		if err != nil || places[0].Lost() || places[1].Lost() || places[2].Lost() {
			panic("a blob is not found")
		}
		for i := range places {
			seen.Add(places[i].Number())
		}
	}
	lookUp()
	taken := float64(heap()-before) / (packs * dirs)
	t.Logf("%.2f bytes in memory for each of %d directories", taken, x.Blobs())
	require.Less(t, taken, 0.5)
	// With the race detector pools lose some of what they are given.
	require.Less(t, testing.AllocsPerRun(100, lookUp), 2.0)
	runtime.KeepAlive(x)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
