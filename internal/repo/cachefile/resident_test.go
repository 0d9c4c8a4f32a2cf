package cachefile_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// size returns the bytes of the file that are in use, free pages not counted, or all.
func size(t testing.TB, c *cache) (used, all int64) {
	t.Helper()
	require.NoError(t, c.DB().View(func(tx *bolt.Tx) error { all = tx.Size(); return nil }))
	stats := c.DB().Stats()
	return all - int64(stats.FreePageN+stats.PendingPageN)*int64(c.DB().Info().PageSize), all
}

// remember commits a batch of directories numbered from first on, with a value as long as a backup's.
func remember(t testing.TB, c *cache, snapshot, first, n int) {
	t.Helper()
	batch := c.dirs.NewBatch()
	value := make([]byte, 64)
	for i := first; i < first+n; i++ {
		binary.LittleEndian.PutUint64(value, uint64(i))
		require.NoError(t, batch.Put(key(i), value))
	}
	require.NoError(t, batch.Commit(id(snapshot)))
}

// The aim is 150 bytes for each file with eleven files to a directory. A file of bbolt does not
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
