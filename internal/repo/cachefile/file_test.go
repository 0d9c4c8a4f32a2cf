package cachefile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	fmtindex "github.com/tidemark-backup/tidemark/pkg/format/index"
)

// fill merges n random segments of blobs 0 to span.
func fill(t testing.TB, c *both, r *rand.Rand, n, span int) {
	t.Helper()
	for no := range n {
		size := r.IntN(60)
		if r.IntN(9) == 0 {
			size = r.IntN(9000) // of the next order of magnitude
		}
		seg, _ := segment(no, r.Perm(span)[:min(size, span)])
		require.NoError(t, c.blobs.Merge(id(1_000_000+no), seg))
	}
}

// TestBusy: of two processes one gets the file, and the other a temporary one.
func TestBusy(t *testing.T) {
	c := newCache(t)
	_, err := cachefile.Open(c.Path(), repo, cachefile.IOContext{}, tables()...)
	require.ErrorIs(t, err, cachefile.ErrBusy)
	f, err := cachefile.OpenTemp(filepath.Dir(c.Path()), repo, cachefile.IOContext{}, tables()...)
	require.NoError(t, err)
	temp := newBoth(f)
	fill(t, temp, rand.New(rand.NewPCG(1, 2)), 30, 3000)
	batch := temp.dirs.NewBatch()
	value := make([]byte, 1<<10)
	for i := range 6 << 10 { // more than the buffer
		require.NoError(t, batch.Put(key(i), value))
	}
	entries, err := os.ReadDir(filepath.Dir(c.Path()))
	require.NoError(t, err)
	require.Len(t, entries, 1, "temporary files have no name")
	require.NoError(t, batch.Discard())
	require.NoError(t, temp.Close())
	require.NoError(t, c.Close())
	openAt(t, c.Path())
}

func TestForeignFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	f, err := cachefile.Open(other, [16]byte{9}, cachefile.IOContext{}, tables()...)
	require.NoError(t, err)
	c := newBoth(f)
	require.NoError(t, c.blobs.Merge(id(1), &fmtindex.Segment{}))
	require.NoError(t, c.Close())
	newer := filepath.Join(dir, "newer.db")
	c = openAt(t, newer)
	require.NoError(t, cachefile.SetLayout(c.File, cachefile.Layout+1))
	require.NoError(t, c.Close())
	missing := filepath.Join(dir, "missing.db")
	c = openAt(t, missing)
	require.NoError(t, c.Update("test", func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("writers")) }))
	require.NoError(t, c.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short.db"), []byte("not a database"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.db"), make([]byte, 100_000), 0o600))
	for _, name := range []string{"other.db", "newer.db", "missing.db", "short.db", "text.db"} {
		c := openAt(t, filepath.Join(dir, name))
		require.Contains(t, c.Note(), "replaced", name)
		segments, err := c.blobs.Segments()
		require.NoError(t, err)
		require.Empty(t, segments)
		require.NoError(t, c.Close())
		c = openAt(t, filepath.Join(dir, name))
		require.Empty(t, c.Note(), "once is enough")
		require.NoError(t, c.Close())
	}
}

func TestOpenErrorsOfTheSystemKeepTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := cachefile.Open(dir, repo, cachefile.IOContext{}, tables()...) // a folder
	require.Error(t, err)
	require.DirExists(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = cachefile.Open(filepath.Join(dir, "file", "cache.db"), repo, cachefile.IOContext{}, tables()...)
	require.Error(t, err)
}

// TestDamage cuts the file and overwrites pages. Whatever a damaged cache says, it neither panics nor fails with
// anything but cachefile.ErrDamaged; and after it was closed, a sound one takes its place.
func TestDamage(t *testing.T) {
	testkit.Slow(t)
	c := newCache(t)
	r := rand.New(rand.NewPCG(5, 5))
	fill(t, c, r, 30, 5000)
	batch := c.dirs.NewBatch()
	for i := range 500 {
		require.NoError(t, batch.Put(key(i), []byte(fmt.Sprint("value ", i))))
	}
	require.NoError(t, batch.Commit(id(1)))
	require.NoError(t, c.Close())
	sound, err := os.ReadFile(c.Path())
	require.NoError(t, err)
	noticed := 0
	for round := range 60 {
		bad := append([]byte(nil), sound...)
		if round%3 == 0 {
			bad = bad[:r.IntN(len(bad))]
		} else {
			at := r.IntN(len(bad)/4096) * 4096
			for i := range 4096 {
				bad[at+i] = byte(r.Uint32())
			}
		}
		path := filepath.Join(t.TempDir(), "cache.db")
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		d := openAt(t, path)
		if d.Note() != "" || useAll(t, d) {
			noticed++
		}
		require.NoError(t, d.Close())
		if d.Damaged() {
			require.NoFileExists(t, path)
		}
	}
	require.Greater(t, noticed, 20, "most damage is noticed")
}

// useAll calls everything and reports whether damage was noticed.
func useAll(t *testing.T, c *both) bool {
	t.Helper()
	ids := make([]format.ID, 5100)
	for i := range ids {
		ids[i] = id(i)
	}
	_, errSegments := c.blobs.Segments()
	errLive := c.dirs.SetLiveSnapshots([]format.ID{id(1)})
	errs := []error{errSegments, errLive, c.blobs.Lookup(ids, make([]index.Found, len(ids)))}
	for i := range 500 {
		hit, ok, err := c.dirs.Lookup(key(i), nil)
		errs = append(errs, err)
		if ok {
			require.Equal(t, fmt.Sprint("value ", i), string(hit.Value), "a damaged entry is never believed")
		}
	}
	for i := range 10 {
		seg, _ := segment(1000+i, []int{6000 + i})
		errs = append(errs, c.blobs.Merge(id(-5000-i), seg))
	}
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, cachefile.ErrDamaged)
		}
	}
	return c.Damaged()
}

// TestAbandon: an abandoned file is gone at once, during lookups too, and another file may take its name.
func TestAbandon(t *testing.T) {
	c := newCache(t)
	require.True(t, c.MostlyNew(), "it is new")
	fill(t, c, rand.New(rand.NewPCG(1, 1)), 10, 500)
	c = reopen(t, c)
	require.False(t, c.MostlyNew())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if err := c.blobs.Lookup([]format.ID{id(1)}, make([]index.Found, 1)); err != nil {
					return
				}
			}
		})
	}
	c.Abandon(true)
	all.Wait()
	require.NoFileExists(t, c.Path())
	_, err := c.blobs.Segments()
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	other := openAt(t, c.Path())
	require.Empty(t, other.Note())
	require.NoError(t, c.Close())
	require.FileExists(t, c.Path(), "the name belongs to another file")
	require.True(t, c.FirstReport())
	require.False(t, c.FirstReport())
}
