package dircache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestBusy: of two processes one gets the cache.
func TestBusy(t *testing.T) {
	c := newCache(t)
	_, _, err := Open(c.dir, repo, localfs.IOContext{})
	require.ErrorIs(t, err, cachefile.ErrBusy)
	reopen(t, c)
}

// aged returns a closed cache of many backups, with several layers.
func aged(t *testing.T, r *rand.Rand) *world {
	w := newWorld(t)
	state := dirs(120)
	for round := range 14 {
		w.backup(state)
		if len(w.live) > 3 {
			w.forget(r.IntN(2))
		}
		for range 10 { // these get other entries
			state[r.IntN(120)] = fmt.Sprintf("state %d, %d", round, r.IntN(1000))
		}
		delete(state, round)
	}
	require.Greater(t, len(w.c.state.Layers), 1)
	require.NoError(t, w.c.Close())
	return w
}

// copied returns a copy of the folder of a cache in which one file has other bytes.
func copied(t *testing.T, c *Cache, name string, change func(p []byte) []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(c.dir)))
	p, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), change(p), 0o600))
	return dir
}

// Whatever bit flips, in whatever file: the cache vouches for no directory by a snapshot that is gone or that never
// contained it. What is not noticed lies between keys and values, and is never read.
func TestFlippedBitsAreNotBelieved(t *testing.T) {
	testkit.Slow(t)
	r := rand.New(rand.NewPCG(3, 3))
	w := aged(t, r)
	for _, name := range files(t, w.c) {
		unnoticed := 0
		for range 40 {
			if w.believesNothingWrong(copied(t, w.c, name, func(p []byte) []byte {
				p[r.IntN(len(p))] ^= 1 << r.IntN(8)
				return p
			})) {
				unnoticed++
			}
		}
		require.Less(t, unnoticed, 20, name)
	}
}

// Whatever is cut off or overwritten does no harm, and a new cache takes its place.
func TestDamage(t *testing.T) {
	testkit.Slow(t)
	r := rand.New(rand.NewPCG(5, 5))
	w := aged(t, r)
	for _, name := range files(t, w.c) {
		unnoticed := 0
		for round := range 20 {
			dir := copied(t, w.c, name, func(p []byte) []byte {
				if round%3 == 0 {
					return p[:r.IntN(len(p))]
				}
				from := r.IntN(len(p) - 100)
				copy(p[from:], testkit.Noise(uint64(round), min(4096, len(p)-from)))
				return p
			})
			if w.believesNothingWrong(dir) {
				unnoticed++
			}
			c, _ := openNoted(t, dir)
			remember(t, c, 1, 0, 10)
			c = reopen(t, c)
			require.NoError(t, c.Close())
		}
		require.Less(t, unnoticed, 5, name)
	}
}

// believesNothingWrong opens a damaged cache, queries every entry, and requires that no answer is wrong. It reports
// whether the damage remained unnoticed.
func (w *world) believesNothingWrong(dir string) (unnoticed bool) {
	w.t.Helper()
	c, note := openNoted(w.t, dir)
	defer func() { require.NoError(w.t, c.Close()) }()
	unnoticed = note == ""
	check := func(err error) bool {
		if err != nil {
			require.ErrorIs(w.t, err, cachefile.ErrDamaged)
			unnoticed = false
		}
		return err == nil
	}
	lookUp := func() {
		for i := range 140 {
			hit, ok, err := c.Lookup(key(i), nil)
			if check(err) && ok {
				w.requireContained(i, hit)
			}
		}
	}
	if check(c.SetLiveSnapshots(w.live)) {
		lookUp()
	}
	// A run that goes on upon it must not call alive what is dead either.
	batch := c.NewBatch()
	for i := range 100 { // all layers are merged
		require.NoError(w.t, batch.Put(key(1000+i), []byte("new")))
	}
	if check(batch.Commit(id(777_777), nil)) && check(c.SetLiveSnapshots(append([]format.ID{id(777_777)}, w.live...))) {
		lookUp()
	}
	return unnoticed
}

// The files are truncated, overwritten or removed during lookups and changes. Each of them ends with ErrDamaged, unless
// it still has the file.
func TestDamageDuringLookups(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut":          func(path string) error { return os.Truncate(path, 0) },
		"cut to pages": func(path string) error { return os.Truncate(path, 12<<10) },
		"zeros behind the head": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(make([]byte, 1<<20), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 {
				c := openAt(t, filepath.Join(t.TempDir(), "dirs"))
				require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
				remember(t, c, 1, 0, 500)
				var lookups, left atomic.Int64
				var all sync.WaitGroup
				spoiled := make(chan struct{})
				for g := range 6 {
					all.Go(func() {
						for i := 0; ; i++ {
							_, _, err := c.Lookup(key((g*80+i)%500), nil)
							if err == nil && g == 0 {
								err = c.SetValue("test", []byte{byte(i)})
							}
							if lookups.Add(1) == 200 {
								close(spoiled)
							}
							if err != nil || i > 100_000 {
								if err == nil {
									left.Add(1)
								} else if !errors.Is(err, cachefile.ErrDamaged) {
									t.Error(err)
								}
								return
							}
						}
					})
				}
				<-spoiled
				require.NoError(t, spoil(filepath.Join(c.dir, "00000001")))
				all.Wait()
				require.Zero(t, left.Load(), "a lookup did not fail")
				require.NoError(t, c.Close())
				require.Empty(t, files(t, c))
			}
		})
	}
}

// TestForeignCachesAreReplaced: of another repository, of another layout, of an earlier version, or no cache at all.
func TestForeignCachesAreReplaced(t *testing.T) {
	made := func(name string, change func(s *state)) string {
		c := openAt(t, filepath.Join(t.TempDir(), "dirs"))
		remember(t, c, 1, 0, 10)
		require.NoError(t, c.change("test", func(next *state) (bool, error) { change(next); return true, nil }), name)
		require.NoError(t, c.Close())
		return c.dir
	}
	short := made("short", func(*state) {})
	require.NoError(t, os.WriteFile(filepath.Join(short, stateName), []byte("{}"), 0o600))
	missing := made("missing", func(*state) {})
	require.NoError(t, os.Remove(filepath.Join(missing, "00000001")))
	folder := made("folder", func(*state) {})
	require.NoError(t, os.Remove(filepath.Join(folder, stateName)))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, stateName, "sub"), 0o700))
	earlier := filepath.Join(t.TempDir(), "dirs")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(earlier), oldCache), nil, 0o600))
	for _, dir := range []string{
		made("other", func(s *state) { s.Repo[0]++ }), made("newer", func(s *state) { s.Layout++ }),
		short, missing, folder, earlier,
	} {
		c, note := openNoted(t, dir)
		require.Contains(t, note, "replaced")
		require.NoError(t, c.Close())
		require.Empty(t, files(t, c))
		require.NoError(t, openAt(t, dir).Close(), "once is enough")
	}
}

func TestOpenErrorsOfTheSystemKeepTheFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, path := range []string{"file", "file/dirs"} {
		_, _, err := Open(filepath.Join(dir, path), repo, localfs.IOContext{})
		require.Error(t, err)
		require.FileExists(t, filepath.Join(dir, "file"))
	}
}

// TestOtherFilesStay: the folder of the cache may be a link to one with other files.
func TestOtherFilesStay(t *testing.T) {
	real := t.TempDir()
	others := map[string]string{"f": "a", "sub/00000007": "b", "0000000g": "c", "000000007": "d", "my-tmp-1": "e"}
	gone := map[string]string{"00000007": "left by a kill", "tmp-1": "", "0000000a/in": ""}
	for _, files := range []map[string]string{others, gone} {
		for name, content := range files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(real, name)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(real, name), []byte(content), 0o600))
		}
	}
	link := filepath.Join(t.TempDir(), "dirs")
	require.NoError(t, os.Symlink(real, link))
	c := openAt(t, link)
	remember(t, c, 1, 0, 10)
	require.Subset(t, files(t, c), []string{"00000001", "state"})
	require.NoError(t, os.WriteFile(filepath.Join(link, "00000001"), nil, 0o600)) // so that Close removes the cache
	_, _, err := c.Lookup(key(1), nil)
	require.NoError(t, err, "nothing counts yet")
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
	_, _, err = c.Lookup(key(1), nil)
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	require.NoError(t, c.Close())
	for name, content := range others {
		got, err := os.ReadFile(filepath.Join(real, name))
		require.NoError(t, err)
		require.Equal(t, content, string(got))
	}
	require.ElementsMatch(t, []string{"f", "sub", "0000000g", "000000007", "my-tmp-1"}, files(t, c))
}

// TestGiveUp: a cache that is given up is as it was, also for lookups that run meanwhile.
func TestGiveUp(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
	remember(t, c, 1, 0, 2000)
	had := files(t, c)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if _, _, err := c.Lookup(key(1), nil); err != nil {
					return
				}
			}
		})
	}
	full := errors.New("no space")
	c.GiveUp(full)
	all.Wait()
	require.ErrorIs(t, c.SetLiveSnapshots(nil), full, "the reason, and no damage")
	_, err := c.Value("test")
	require.ErrorIs(t, err, full)
	c = reopen(t, c)
	require.Equal(t, had, files(t, c))
}

// The aim is 150 bytes for each file with eleven files to a directory.
func TestBytesOfTheCache(t *testing.T) {
	testkit.Slow(t)
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1), id(2)}))
	const dirs = 60_000
	size := func() (all float64) {
		for _, name := range files(t, c) {
			info, err := os.Stat(filepath.Join(c.dir, name))
			require.NoError(t, err)
			all += float64(info.Size())
		}
		return all
	}
	remember(t, c, 1, 0, dirs)
	require.Less(t, size()/dirs, 112.0, "bytes for a directory")
	remember(t, c, 2, 0, dirs/10)
	require.Less(t, size()/dirs, 123.0, "bytes for a directory after a tenth has changed")
}
