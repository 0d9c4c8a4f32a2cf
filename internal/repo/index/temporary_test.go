package index

import (
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// TestNumbersOfBlobs: each blob has the number that its place in the table of its pack gives it, the newest place
// counts, and the pack is found from the number.
func TestNumbersOfBlobs(t *testing.T) {
	dir := t.TempDir()
	f, err := cachefile.OpenTempFile(dir, localfs.IOContext{})
	require.NoError(t, err)
	x := newTemporary(f)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the file has no name")
	const packs, blobs = 3 * recentPacks, 50
	var all []index.Pack
	for i := range packs {
		list := make([]int, blobs)
		for j := range list {
			list[j] = i*blobs + j
		}
		seg, _ := segment(i, list)
		all = append(all, seg.Packs...)
	}
	first, next := make([]uint64, len(all)), uint64(0)
	for i := range all {
		first[i], err = x.Add(0, 0, &all[i])
		require.NoError(t, err)
		require.Equal(t, next, first[i])
		next += uint64(all[i].Table.Blobs())
	}
	again := all[0] // under another pack, which came later
	again.ID = id(9_000_000)
	newest, err := x.Add(0, 0, &again)
	require.NoError(t, err)
	require.Equal(t, next, newest)
	seen := make(map[uint32]bool)
	for i := range all {
		n := uint32(first[i])
		pack := &all[i]
		if i == 0 {
			n, pack = uint32(newest), &again
		}
		for _, f := range all[i].Table.Frames {
			skip := uint32(0)
			for _, b := range f.Blobs {
				at, err := x.LocateOne(b.ID)
				require.NoError(t, err)
				require.Equal(t, Place{Loc{Offset: f.Offset, Sealed: f.Sealed, Skip: skip, Len: b.Len}, n, 1}, at)
				require.False(t, seen[n])
				seen[n] = true
				found, err := x.Found(&at)
				require.NoError(t, err)
				require.Equal(t, Found{at.Loc, &PackInfo{ID: pack.ID, Salt: pack.Table.Salt, Size: pack.Size}}, found)
				skip += b.Len
				n++
			}
		}
	}
	replaced, err := x.Replaced()
	require.NoError(t, err)
	require.EqualValues(t, all[0].Table.Blobs(), replaced)
	require.NoError(t, x.Close())
}

func TestTooManyBlobs(t *testing.T) {
	x := emptyIndex(t)
	x.total = math.MaxUint32 - 2
	seg, _ := segment(1, []int{1, 2, 3})
	_, err := x.Add(0, 0, &seg.Packs[0])
	require.ErrorIs(t, err, ErrTooMany)
}

func emptyIndex(t testing.TB) *Temporary {
	t.Helper()
	f, err := cachefile.OpenTempFile(t.TempDir(), localfs.IOContext{})
	require.NoError(t, err)
	x := newTemporary(f)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// framePack is a pack of one frame with the blobs from first on.
func framePack(first, n int) index.Pack {
	frame := pack.Frame{Offset: pack.HeaderSize, Sealed: 1000}
	for i := range n {
		frame.Blobs = append(frame.Blobs, pack.Blob{ID: random(uint64(first + i)), Len: 10})
	}
	return index.Pack{ID: id(first), Size: 5000, Table: pack.Table{Kind: pack.Trees, Frames: []pack.Frame{frame}}}
}

// TestLowestRankCounts: a blob in packs of several ranks is found in that of the lowest, whichever was added first.
// Over all ranks no two blobs have the same number.
func TestLowestRankCounts(t *testing.T) {
	const low, middle, high = 0, 1, 2
	x := emptyIndex(t)
	add := func(rank int, packs ...index.Pack) {
		for i := range packs {
			_, err := x.Add(rank, 0, &packs[i])
			require.NoError(t, err)
		}
	}
	add(high, framePack(0, 40))
	add(middle, framePack(10, 20))
	add(low, framePack(0, 10), framePack(15, 5))
	ids := make([]format.ID, 50)
	for i := range ids {
		ids[i] = random(uint64(i))
	}
	places, err := x.Locate(nil, ids)
	require.NoError(t, err)
	seen := make(map[uint64]bool)
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
		require.Less(t, at.Number(), x.Blobs())
		require.False(t, seen[at.Number()], "blob %d has the number of another", i)
		seen[at.Number()] = true
	}
	met := map[uint64]format.ID{}
	require.NoError(t, x.Each(func(id format.ID, number uint64) error {
		met[number] = id
		return nil
	}))
	require.Len(t, met, 40, "each once")
	for i := range 40 {
		require.Equal(t, ids[i], met[places[i].Number()])
	}
	replaced, err := x.Replaced()
	require.NoError(t, err)
	require.Zero(t, replaced, "within the lowest rank")
}

// TestMemoryOfAPlace: a tenth of a byte leads to the place of a blob. A lookup allocates nothing.
func TestMemoryOfAPlace(t *testing.T) {
	const packs, dirs = 100, 2000
	x := emptyIndex(t)
	before := heap()
	for i := range packs {
		p := framePack(i*dirs, dirs)
		_, err := x.Add(0, 0, &p)
		require.NoError(t, err)
	}
	ids := []format.ID{random(1), random(7000), random(90_000)}
	var places []Place
	var err error
	lookUp := func() {
		places, err = x.Locate(places, ids)
		if err != nil || places[0].Lost() || places[1].Lost() || places[2].Lost() {
			panic("a blob is not found")
		}
	}
	lookUp()
	taken := float64(heap()-before) / (packs * dirs)
	t.Logf("%.2f bytes in memory for each of %d blobs", taken, x.Blobs())
	require.Less(t, taken, 0.5)
	// With the race detector pools lose some of what they are given.
	require.Less(t, testing.AllocsPerRun(100, lookUp), 2.0)
	runtime.KeepAlive(x)
}
