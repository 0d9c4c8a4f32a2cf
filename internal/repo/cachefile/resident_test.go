package cachefile_test

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// size returns the bytes of the file that are in use, free pages not counted, or all.
func size(t testing.TB, c *both) (used, all int64) {
	t.Helper()
	require.NoError(t, c.DB().View(func(tx *bolt.Tx) error { all = tx.Size(); return nil }))
	stats := c.DB().Stats()
	return all - int64(stats.FreePageN+stats.PendingPageN)*int64(c.DB().Info().PageSize), all
}

// remember commits a batch of directories numbered from first on, with a value as long as a backup's.
func remember(t testing.TB, c *both, snapshot, first, n int) {
	t.Helper()
	batch := c.dirs.NewBatch()
	value := make([]byte, 64)
	for i := first; i < first+n; i++ {
		binary.LittleEndian.PutUint64(value, uint64(i))
		require.NoError(t, batch.Put(key(i), value))
	}
	require.NoError(t, batch.Commit(id(snapshot)))
}

// The aim is 150 bytes for each file with eleven files to a directory, and 50 for each blob. A file of bbolt does not
// shrink, so what counts is the whole of it, free pages included.
func TestBytesOfTheCache(t *testing.T) {
	testkit.Slow(t)
	c := newCache(t)
	require.NoError(t, c.dirs.SetLiveSnapshots([]format.ID{id(1), id(2)}))
	_, empty := size(t, c)
	const dirs = 60_000
	remember(t, c, 1, 0, dirs)
	used, all := size(t, c)
	require.Less(t, float64(used-empty)/dirs, 130.0, "bytes in use for a directory")
	require.Less(t, float64(all-empty)/dirs, 160.0, "bytes for a directory")

	remember(t, c, 2, 0, dirs/10) // a tenth changed; their keys are spread over all pages
	_, all = size(t, c)
	require.Less(t, float64(all-empty)/dirs, 330.0, "bytes for a directory after changes: both versions of a page at most")

	c = newCache(t)
	_, empty = size(t, c)
	const blobs, perSegment = 256 << 10, 32 << 10
	list := make([]int, perSegment)
	for s := range blobs / perSegment {
		for i := range list {
			list[i] = s*perSegment + i
		}
		seg, _ := segment(s, list)
		require.NoError(t, c.blobs.Merge(id(5_000_000+s), seg))
	}
	used, all = size(t, c)
	require.Less(t, float64(used-empty)/blobs, 60.0, "bytes in use for a blob")
	require.Less(t, float64(all-empty)/blobs, 125.0, "bytes for a blob, with the space that merging runs leaves behind")
}

// A large file is evicted as it is read, which bounds its resident part.
func TestMappingIsLetGoOf(t *testing.T) {
	testkit.Slow(t)
	c := newCache(t)
	c.Mapped().SetMax(2 << 20)
	looksPerRelease := c.Mapped().Max() / cachefile.FaultAround
	require.NoError(t, c.dirs.SetLiveSnapshots([]format.ID{id(1)}))
	const dirs = 80_000
	remember(t, c, 1, 0, dirs)
	_, all := size(t, c)
	require.Greater(t, all, 4*c.Mapped().Max(), "the file is too small to show anything")
	before := c.Mapped().Released()
	c.Mapped().Reset()
	r := rand.New(rand.NewPCG(1, 2))
	look := func(n int64) (most int64) {
		for n := range n {
			i := r.IntN(dirs)
			hit, ok, err := c.dirs.Lookup(key(i), nil)
			require.NoError(t, err)
			require.True(t, ok)
			require.EqualValues(t, i, binary.LittleEndian.Uint64(hit.Value))
			if n%(looksPerRelease/4) == 0 {
				most = max(most, mappedResident(t, c.Path()))
			}
		}
		return most
	}
	most := look(100 * looksPerRelease)
	require.EqualValues(t, 100, c.Mapped().Released()-before)
	if runtime.GOOS == "linux" {
		require.Positive(t, most)
		require.Less(t, most, c.Mapped().Max()*3/2)
		c.Mapped().SetMax(all)
		require.Greater(t, look(2000), all*3/4, "of a file that may be resident as a whole, all that was looked at is")
	}
}

// One lookup of very many blobs has the same bound: it reads the file from front to back, and releases pages behind
// itself. Blobs that the filters exclude cost nothing.
func TestALongLookupLetsGo(t *testing.T) {
	c := newCache(t)
	c.Mapped().SetMax(1 << 20)
	const blobs = 60_000
	seg, _ := segment(0, slices.Collect(rangeOf(0, blobs)))
	require.NoError(t, c.blobs.Merge(id(-9), seg))
	_, all := size(t, c)
	require.Greater(t, all, 2*c.Mapped().Max(), "the file is too small to show anything")
	count := func(from, to int) int64 {
		ids := make([]format.ID, 0, to-from)
		for i := range rangeOf(from, to) {
			ids = append(ids, id(i))
		}
		c.Mapped().Reset()
		before := c.Mapped().Released()
		require.NoError(t, c.blobs.Lookup(ids, make([]index.Found, len(ids))))
		return c.Mapped().Released() - before
	}
	count(0, 1) // reads the filters
	blocks, each := int64(blobs/40), c.Mapped().Max()/cachefile.FaultAround
	require.InDelta(t, blocks/each, count(0, blobs), float64(blocks/each)/4, "each block is looked for once")
	require.LessOrEqual(t, count(blobs, blobs+1000), 1000/20/each, "what is not there")
}

// rangeOf yields the numbers from one up to another.
func rangeOf(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := from; i < to && yield(i); i++ {
		}
	}
}

// What fits is left alone: an unchanged backup of a million files does not pay for what 28 million need.
func TestASmallMappingStays(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.dirs.SetLiveSnapshots([]format.ID{id(1)}))
	remember(t, c, 1, 0, 1000)
	for i := range 2 * cachefile.ResidentMax / cachefile.FaultAround {
		_, ok, err := c.dirs.Lookup(key(i%1000), nil)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.Zero(t, c.Mapped().Released())
}
