package cachefile_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestBusy: of two processes one gets the file.
func TestBusy(t *testing.T) {
	c := newCache(t)
	_, err := cachefile.Open(c.Path(), repo, localfs.IOContext{}, table())
	require.ErrorIs(t, err, cachefile.ErrBusy)
	require.NoError(t, c.Close())
	openAt(t, c.Path())
}

// A file that is complete is read by several at once, and not while another process removes it.
func TestPlainFilesAreRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	f, err := cachefile.Create(dir, "made-", localfs.IOContext{})
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("content"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	for range 2 {
		r, err := cachefile.OpenRead(f.Path(), localfs.IOContext{})
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		require.True(t, r.Has(f.Path()))
		require.False(t, r.Has(dir))
		require.EqualValues(t, 10, r.Size())
		got := make([]byte, 7)
		_, err = r.ReadAt(got, 3)
		require.NoError(t, err)
		require.Equal(t, "content", string(got))
		_, err = r.ReadAt(got, 4)
		require.ErrorIs(t, err, io.EOF)
	}
	path := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	remover, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(remover.Fd()), unix.LOCK_EX))
	_, err = cachefile.OpenRead(path, localfs.IOContext{})
	require.ErrorIs(t, err, cachefile.ErrBusy)
	require.NoError(t, remover.Close())
	_, err = cachefile.OpenRead(dir, localfs.IOContext{})
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	_, err = cachefile.OpenRead(filepath.Join(dir, "none"), localfs.IOContext{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.FileExists(t, f.Path())
	require.NoError(t, f.Close())
}

func TestForeignFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	f, err := cachefile.Open(other, [16]byte{9}, localfs.IOContext{}, table())
	require.NoError(t, err)
	c := newUser(f)
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
		require.NoError(t, c.Close())
		c = openAt(t, filepath.Join(dir, name))
		require.Empty(t, c.Note(), "once is enough")
		require.NoError(t, c.Close())
	}
}

func TestOpenErrorsOfTheSystemKeepTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := cachefile.Open(dir, repo, localfs.IOContext{}, table()) // a folder
	require.Error(t, err)
	require.DirExists(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = cachefile.Open(filepath.Join(dir, "file", "cache.db"), repo, localfs.IOContext{}, table())
	require.Error(t, err)
}

// TestDamage cuts the file and overwrites pages. Whatever a damaged cache says, it neither panics nor fails with
// anything but cachefile.ErrDamaged; and after it was closed, a sound one takes its place.
func TestDamage(t *testing.T) {
	testkit.Slow(t)
	c := newCache(t)
	r := rand.New(rand.NewPCG(5, 5))
	batch := c.dirs.NewBatch()
	for i := range 5000 {
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
	require.Greater(t, noticed, 15, "most damage is noticed")
}

// useAll calls everything and reports whether damage was noticed.
func useAll(t *testing.T, c *cache) bool {
	t.Helper()
	errs := []error{c.dirs.SetLiveSnapshots([]format.ID{id(1)})}
	for i := range 5000 {
		hit, ok, err := c.dirs.Lookup(key(i), nil)
		errs = append(errs, err)
		if ok {
			require.Equal(t, fmt.Sprint("value ", i), string(hit.Value), "a damaged entry is never believed")
		}
	}
	for i := range 10 {
		batch := c.dirs.NewBatch()
		require.NoError(t, batch.Put(key(6000+i), nil))
		errs = append(errs, batch.Commit(id(2)))
	}
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, cachefile.ErrDamaged)
		}
	}
	return c.Damaged()
}

// TestLookupsWhileTheFileIsMappedAgain: a commit that maps a grown file again waits for readers, and new readers wait
// for it. None of them waits for ever.
func TestLookupsWhileTheFileIsMappedAgain(t *testing.T) {
	testkit.Slow(t)
	c := openAt(t, filepath.Join(testkit.RamDir(t), "cache.db"))
	remember(t, c, 1, 0, 2000)
	require.NoError(t, c.dirs.SetLiveSnapshots([]format.ID{id(1)}))
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !stop.Load() {
				if _, _, err := c.dirs.Lookup(key(1), nil); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	large := make([]byte, 16<<20) // the file is mapped for 64 MiB at first
	for i := range 12 {
		require.NoError(t, c.Update("grow", func(tx *bolt.Tx) error {
			return cachefile.PutValue(tx, fmt.Sprint("large ", i), large)
		}))
	}
	stop.Store(true)
	all.Wait()
}

// TestGiveUp: a file that this run has made is gone at once, during lookups too, and another may take its name. One
// that is mostly older stays.
func TestGiveUp(t *testing.T) {
	c := newCache(t)
	remember(t, c, 1, 0, 2000)
	c = reopen(t, c)
	c.GiveUp()
	require.NoError(t, c.Close())
	require.FileExists(t, c.Path())
	require.NoError(t, os.Remove(c.Path()))

	c = openAt(t, c.Path())
	remember(t, c, 1, 0, 2000)
	require.NoError(t, c.dirs.SetLiveSnapshots([]format.ID{id(1)}))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if _, _, err := c.dirs.Lookup(key(1), nil); err != nil {
					return
				}
			}
		})
	}
	c.GiveUp()
	all.Wait()
	require.NoFileExists(t, c.Path())
	require.ErrorIs(t, c.dirs.SetLiveSnapshots(nil), cachefile.ErrDamaged)
	other := openAt(t, c.Path())
	require.Empty(t, other.Note())
	require.NoError(t, c.Close())
	require.FileExists(t, c.Path(), "the name belongs to another file")
}
