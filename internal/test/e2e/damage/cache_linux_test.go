package damage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// cacheKit is a source with its repository, and the messages of every run about its cache.
type cacheKit struct {
	*kit.Engine
	src string
	of  string // which file of the cache a test spoils: "dirs" or "runs"

	mu    sync.Mutex
	notes []string
}

// newCacheKit makes a source of this many small files. Each run of the kit adds a few, so that the cache has new
// entries.
func newCacheKit(t *testing.T, files int) *cacheKit {
	t.Helper()
	k := &cacheKit{Engine: kit.NewEngine(t, nil), src: testkit.RamDir(t)}
	k.Open.Notify = func(text string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.notes = append(k.notes, text)
	}
	k.more(0, files)
	return k
}

// more makes files from, up to to.
func (k *cacheKit) more(from, to int) {
	k.T.Helper()
	all := make(map[string]string)
	for i := from; i < to; i++ {
		all[fmt.Sprintf("d%d/f%d", i%40, i)] = string(testkit.Noise(uint64(i), 200+i%100))
	}
	kit.Written(k.T, k.src, all)
	kit.Settle()
}

// folder is the folder of the cache.
func (k *cacheKit) folder() string {
	k.T.Helper()
	matches, err := filepath.Glob(filepath.Join(k.Open.Cache.Dir, "*"))
	require.NoError(k.T, err)
	require.Len(k.T, matches, 1)
	return matches[0]
}

// file is the oldest file of the directory cache or of the hash cache.
func (k *cacheKit) file() string {
	k.T.Helper()
	all, err := filepath.Glob(filepath.Join(k.folder(), cmp.Or(k.of, "runs"), "0*"))
	require.NoError(k.T, err)
	require.NotEmpty(k.T, all)
	return all[0]
}

// copied returns a copy of the directory cache, or of the oldest file of the hash cache, and putInto puts it into
// another cache.
func (k *cacheKit) copied() (putInto func(other *cacheKit)) {
	k.T.Helper()
	if k.of == "runs" {
		data, err := os.ReadFile(k.file())
		require.NoError(k.T, err)
		return func(other *cacheKit) { require.NoError(k.T, os.WriteFile(other.file(), data, 0o600)) }
	}
	to := k.T.TempDir()
	require.NoError(k.T, os.CopyFS(to, os.DirFS(filepath.Dir(k.file()))))
	return func(other *cacheKit) {
		dir := filepath.Dir(other.file())
		require.NoError(k.T, os.RemoveAll(dir))
		require.NoError(k.T, os.CopyFS(dir, os.DirFS(to)))
	}
}

// files are the names of both.
func files() []string { return []string{"dirs", "runs"} }

// reported returns the message since the last call, from the repository or from the ledger. There is at most one line.
func (k *cacheKit) reported() string {
	k.T.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	reported := k.notes
	k.notes = nil
	if k.Ledger != nil {
		for _, i := range k.Ledger.Issues() {
			if i.Remark {
				reported = append(reported, fmt.Sprintf("%s: %v", i.Op, i.Err))
			}
		}
	}
	require.LessOrEqual(k.T, len(reported), 1, "one clear note: %q", reported)
	return strings.Join(reported, "")
}

// mustBackup makes a snapshot with the cache in any state, and returns the message.
func (k *cacheKit) mustBackup() string {
	k.T.Helper()
	_, _, err := k.Backup(k.Job(k.src))
	require.NoError(k.T, err)
	require.Empty(k.T, k.Failures())
	return k.reported()
}

// requireWhole requires that the newest snapshot is complete and the repository sound, as a machine finds it that has
// no cache at all.
func (k *cacheKit) requireWhole() {
	k.T.Helper()
	had := k.Open
	defer func() { k.Open = had }()
	k.Open.Cache.Dir = testkit.RamDir(k.T)
	k.RequireSound()
	k.RequireRestored(k.src)
	k.notes = nil
}

// beforePut calls a function before each file of a kind that is stored.
type beforePut struct {
	store.Store
	kind store.Kind
	call func()
}

func (s *beforePut) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == s.kind {
		s.call()
	}
	return s.Store.Put(ctx, name, data)
}

// TestCacheSpoiledBetweenRuns damages the cache between runs. The next run makes a complete snapshot, and the one after
// that has a cache again.
func TestCacheSpoiledBetweenRuns(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	overwrite := func(change func([]byte) []byte) func(*testing.T, *cacheKit, []byte) {
		return func(t *testing.T, k *cacheKit, sound []byte) {
			require.NoError(t, os.WriteFile(k.file(), change(append([]byte(nil), sound...)), 0o600))
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, k *cacheKit, sound []byte)
		quiet bool // nothing is wrong
	}{
		{"nothing", func(*testing.T, *cacheKit, []byte) {}, true},
		{"gone", func(t *testing.T, k *cacheKit, _ []byte) { require.NoError(t, os.Remove(k.file())) }, true},
		{"folder gone", func(t *testing.T, k *cacheKit, _ []byte) { require.NoError(t, os.RemoveAll(k.Open.Cache.Dir)) },
			true},
		{"empty", overwrite(func([]byte) []byte { return nil }), false},
		{"zeros", overwrite(func(p []byte) []byte { return make([]byte, len(p)) }), false},
		{"a part", overwrite(func(p []byte) []byte { return p[:3*4096] }), false},
		{"the head alone", overwrite(func(p []byte) []byte { return p[:8192] }), false},
		{"zeros behind the head", overwrite(func(p []byte) []byte { clear(p[12288:]); return p }), false},
		{"noise behind the head", overwrite(func(p []byte) []byte {
			copy(p[8192:], testkit.Noise(9, len(p)-8192))
			return p
		}), false},
		{"a folder", func(t *testing.T, k *cacheKit, _ []byte) {
			file := k.file()
			require.NoError(t, os.Remove(file))
			kit.Written(t, file, map[string]string{"x": "x"})
		}, false},
		{"a pipe", func(t *testing.T, k *cacheKit, _ []byte) {
			file := k.file()
			require.NoError(t, os.Remove(file))
			require.NoError(t, unix.Mkfifo(file, 0o600))
		}, false},
		{"a link that leads nowhere", func(t *testing.T, k *cacheKit, _ []byte) {
			file := k.file()
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("/nowhere/cache.db", file))
		}, false},
		{"a file in the place of the folder", func(t *testing.T, k *cacheKit, _ []byte) {
			dir := k.folder()
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		}, false},
	} {
		for _, of := range files() {
			t.Run(of+" "+c.name, func(t *testing.T) {
				k := newCacheKit(t, 600)
				k.of = of
				require.Empty(t, k.mustBackup())
				sound, err := os.ReadFile(k.file())
				require.NoError(t, err)
				c.spoil(t, k, sound)
				k.more(600, 700)
				reported := k.mustBackup()
				quiet := c.quiet && (of == "runs" || c.name != "gone") // another file names the one of a directory cache
				require.Equal(t, quiet, reported == "", reported)
				require.Equal(t, 2, kit.Count(t, k.Store, store.Snapshot))
				k.requireWhole()
				k.more(700, 710)
				k.mustBackup()
				k.requireWhole()
			})
		}
	}
}

// TestCacheOfAnother: the cache of another repository, and an older one of this, are distinguished from the right one.
func TestCacheOfAnother(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, of := range files() {
		t.Run(of, func(t *testing.T) { cacheOfAnother(t, of) })
	}
}

func cacheOfAnother(t *testing.T, of string) {
	k, other := newCacheKit(t, 500), newCacheKit(t, 700)
	k.of, other.of = of, of
	k.mustBackup()
	other.mustBackup()
	older, foreign := k.copied(), other.copied()
	k.more(500, 900)
	k.mustBackup()

	foreign(k)
	k.more(900, 950)
	require.Contains(t, k.mustBackup(), "another repository")
	k.requireWhole()

	// The newest snapshots are forgotten, and their own packs are removed: the older cache must use none of them, and no
	// other entry that has gone since.
	older(k)
	k.more(950, 1000)
	require.Empty(t, k.mustBackup())
	k.requireWhole()
}

// TestCacheWithoutRights: a cache that may not be read or written is done without.
func TestCacheWithoutRights(t *testing.T) {
	testkit.Slow(t)
	if kit.AsNobody(t) {
		return
	}
	for name, spoil := range map[string]func(t *testing.T, k *cacheKit){
		"the file is shut":      func(t *testing.T, k *cacheKit) { require.NoError(t, os.Chmod(k.file(), 0)) },
		"the file is read-only": func(t *testing.T, k *cacheKit) { require.NoError(t, os.Chmod(k.file(), 0o400)) },
		"the folder is shut":    func(t *testing.T, k *cacheKit) { require.NoError(t, os.Chmod(k.folder(), 0)) },
		"the folder is read-only": func(t *testing.T, k *cacheKit) {
			file := k.file()
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Chmod(filepath.Dir(file), 0o500))
		},
		"no folder can be made": func(t *testing.T, k *cacheKit) { k.Open.Cache.Dir = "/proc/nothing" },
		"no temporary file either": func(t *testing.T, k *cacheKit) {
			k.Open.Cache.Dir = "/proc/nothing"
			t.Setenv("TMPDIR", "/proc/nothing")
		},
	} {
		for _, of := range files() {
			t.Run(of+" "+name, func(t *testing.T) {
				k := newCacheKit(t, 300)
				k.of = of
				k.mustBackup()
				temp := os.TempDir()
				spoil(t, k)
				k.more(300, 400)
				if reported := k.mustBackup(); name != "the file is read-only" { // it is never written
					require.Contains(t, reported, "cannot be ")
				}
				t.Setenv("TMPDIR", temp)
				k.requireWhole()
			})
		}
	}
}

// TestCacheSpoiledInARun: in the middle of a run the cache is cut, overwritten, or loses its name. The snapshot is made
// all the same.
func TestCacheSpoiledInARun(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, file string)
		quiet bool
	}{
		{"cut to nothing", func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 0)) }, false},
		{"cut to the head", func(t *testing.T, file string) { require.NoError(t, os.Truncate(file, 8192)) }, false},
		{"zeros behind the head", func(t *testing.T, file string) { scribble(t, file, 8192, func(p []byte) { clear(p) }) },
			false},
		{"noise behind the head", func(t *testing.T, file string) {
			scribble(t, file, 8192, func(p []byte) { copy(p, testkit.Noise(3, len(p))) })
		}, false},
		{"deleted", func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) }, true},
		{"folder deleted", func(t *testing.T, file string) { require.NoError(t, os.RemoveAll(filepath.Dir(file))) }, true},
		{"renamed", func(t *testing.T, file string) { require.NoError(t, os.Rename(file, file+".old")) }, true},
	} {
		for _, of := range files() {
			t.Run(of+" "+c.name, func(t *testing.T) {
				k := newCacheKit(t, 800)
				k.of = of
				k.mustBackup()
				k.more(800, 3000)
				file := k.file()
				var once sync.Once
				inner := k.Store
				k.Store = &beforePut{inner, store.Pack, func() { once.Do(func() { c.spoil(t, file) }) }}
				job := k.Job(k.src)
				job.Session.Tuning.DataPack, job.Session.Tuning.Frame = 64<<10, 16<<10
				job.Session.Tuning.Segment = 2
				_, _, err := k.Backup(job)
				require.NoError(t, err)
				require.Empty(t, k.Failures())
				reported := k.reported()
				require.Equal(t, c.quiet, reported == "", reported)
				k.Store = inner
				require.Equal(t, 2, kit.Count(t, k.Store, store.Snapshot))
				k.requireWhole()
				k.more(3000, 3010)
				k.mustBackup()
				k.requireWhole()
			})
		}
	}
}

// scribble changes the bytes of a file from an offset on, in place.
func scribble(t *testing.T, file string, off int64, change func([]byte)) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, off, 1<<40))
	require.NoError(t, err)
	change(data)
	_, err = f.WriteAt(data, off)
	require.NoError(t, err)
}

// TestCacheDiskFillsUp: the disk of the cache is full from the start, fills up in the middle of a run, or ends below
// the file. The snapshot is made, and a cache that this run has made does not keep the disk full.
func TestCacheDiskFillsUp(t *testing.T) {
	testkit.Slow(t)
	for _, c := range []struct {
		name   string
		size   string
		before int // files that an earlier run has stored, when there was space
		fill   bool
		temp   bool // the folder for temporary files is on the same disk
	}{
		{"no room at all", "1m", 0, true, true},
		{"no room but elsewhere", "1m", 0, true, false},
		{"room for a part of a new cache", "200k", 0, false, true},
		{"a part of it, and room elsewhere", "200k", 0, false, false},
		{"an old cache that cannot grow", "2m", 300, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCacheKit(t, 300)
			disk := filepath.Join(testkit.RamDir(t), "disk")
			testkit.MountMemory(t, disk, c.size)
			k.Open.Cache.Dir = filepath.Join(disk, "cache")
			require.NoError(t, os.Mkdir(k.Open.Cache.Dir, 0o700))
			if c.before > 0 {
				k.mustBackup()
			}
			if c.fill {
				kit.Fill(t, disk)
			}
			free, temp := freeOf(t, disk), os.TempDir()
			if c.temp {
				t.Setenv("TMPDIR", disk)
			}
			k.more(300, 4000)
			for run := range 2 {
				reported := k.mustBackup()
				require.NotEmpty(t, reported)
				require.Equal(t, run+1+min(c.before, 1), kit.Count(t, k.Store, store.Snapshot))
				require.GreaterOrEqual(t, freeOf(t, disk), free/2, "its remains must not keep the disk full")
				k.more(6000+run, 6001+run)
			}
			t.Setenv("TMPDIR", temp)
			k.more(6010, 6020)
			k.mustBackup()
			k.requireWhole()
		})
	}
}

func freeOf(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	return st.Bavail * uint64(st.Bsize)
}

// TestCacheDiskDies: in the middle of a run the disk of the cache answers nothing but errors of input and output any
// more.
func TestCacheDiskDies(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const goingDown = 0x8004587d // EXT4_IOC_SHUTDOWN
	disk := testkit.Disk(t, 32<<20, "mkfs.ext4", "-q")
	k := newCacheKit(t, 1000)
	k.Open.Cache.Dir = filepath.Join(disk, "cache")
	k.mustBackup()
	k.more(1000, 3000)
	root, err := os.Open(disk)
	require.NoError(t, err)
	defer root.Close()
	var once sync.Once
	inner := k.Store
	k.Store = &beforePut{inner, store.Pack, func() {
		once.Do(func() {
			require.NoError(t, unix.IoctlSetPointerInt(int(root.Fd()), goingDown, 2))
		})
	}}
	job := k.Job(k.src)
	job.Session.Tuning.DataPack, job.Session.Tuning.Frame = 64<<10, 16<<10
	job.Session.Tuning.Segment = 2
	_, _, err = k.Backup(job)
	require.NoError(t, err)
	require.Empty(t, k.Failures())
	require.NotEmpty(t, k.reported())
	k.Store = inner
	k.more(3000, 3010)
	require.Contains(t, k.mustBackup(), "cannot be used", "the next run finds it dead")
	k.requireWhole()
}

// TestCacheFlippedBits: bits flip anywhere in the cache. No run fails, and no snapshot lacks anything.
func TestCacheFlippedBits(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, of := range files() {
		t.Run(of, func(t *testing.T) { flippedBits(t, of) })
	}
}

func flippedBits(t *testing.T, of string) {
	k := newCacheKit(t, 1500)
	k.of = of
	k.mustBackup()
	k.more(1500, 1600)
	k.mustBackup()
	noticed := 0
	for seed := range uint64(testkit.Rounds(8, 8, 25)) { // fewer may hit nothing that is read
		rng := rand.New(rand.NewPCG(seed, 5))
		k.more(1600+2*int(seed), 1601+2*int(seed))
		k.mustBackup() // a directory cache that was found damaged is made again
		name := k.file()
		bad, err := os.ReadFile(name)
		require.NoError(t, err)
		for range 1 + rng.IntN(60) {
			bad[8192+rng.IntN(len(bad)-8192)] ^= 1 << rng.IntN(8)
		}
		if of == "runs" { // alone: the others would be newer
			require.NoError(t, os.RemoveAll(filepath.Dir(name)))
			require.NoError(t, os.Mkdir(filepath.Dir(name), 0o700))
		}
		require.NoError(t, os.WriteFile(name, bad, 0o600))
		k.more(1601+2*int(seed), 1602+2*int(seed))
		_, _, err = k.Backup(k.Job(k.src))
		require.NoError(t, err, "seed %d", seed)
		require.Empty(t, k.Failures(), "seed %d", seed)
		noticed += min(len(k.reported()), 1)
		if seed%5 == 4 {
			k.requireWhole()
		}
		if k.Open.Cache.Dir == "" {
			break
		}
	}
	require.Positive(t, noticed)
	k.requireWhole()
}

// TestCacheHeldByAStoppedProcess: another process holds the lock of the cache and does not move. A run waits for it no
// longer than a moment, uses what there is, and saves nothing.
func TestCacheHeldByAStoppedProcess(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	k := newCacheKit(t, 300)
	k.mustBackup()
	hold := func(name string) {
		file, err := os.OpenFile(filepath.Join(k.folder(), name), os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, file.Close()) })
		require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX))
	}
	hold("lock")
	k.more(300, 400)
	require.Empty(t, k.mustBackup())
	k.requireWhole()
	hold("dirs/lock")
	k.more(400, 500)
	require.Contains(t, k.mustBackup(), "another run uses the directory cache")
	k.requireWhole()
	all, err := filepath.Glob(filepath.Join(k.folder(), "runs", "*"))
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// TestIndexTooLargeForMemory: without any disk the index of blobs is in memory, which is bounded. Beyond the bound a
// backup stores repeated blobs again, and a restore that misses a blob reports why.
func TestIndexTooLargeForMemory(t *testing.T) {
	testkit.Slow(t)
	k := newCacheKit(t, 3000)
	k.mustBackup()
	k.Open.Cache.Dir, k.Open.Cache.MemoryBlobs = "/proc/nothing", 500
	had := os.TempDir()
	t.Setenv("TMPDIR", "/proc/nothing")
	k.more(3000, 3100)
	_, _, err := k.Backup(k.Job(k.src))
	require.NoError(t, err)
	require.Empty(t, k.Failures())
	k.mu.Lock()
	require.Len(t, k.notes, 2)
	require.Contains(t, k.notes[1], "stored again")
	k.notes = nil
	k.mu.Unlock()
	totals, err := k.Restore(k.src, kit.Target(filepath.Join(testkit.RamDir(t), "out")))
	require.True(t, err != nil || totals.Failures > 0)
	said := fmt.Sprint(err, k.Failures())
	require.Contains(t, said, "no disk space")
	require.Contains(t, said, "--cache-dir")
	require.NotContains(t, said, "in no pack of this repository", "that is unknown")
	t.Setenv("TMPDIR", had)
	k.requireWhole()
}

// TestTwoRunsAtOnceOnOneDamagedCache: each of them finds the damage, one replaces the file, and none takes the name
// from the other's.
func TestTwoRunsAtOnceOnOneDamagedCache(t *testing.T) {
	t.Parallel()
	k := newCacheKit(t, 800)
	k.mustBackup()
	require.NoError(t, os.Truncate(k.file(), 40<<10))
	k.more(800, 1000)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for range 3 {
		wg.Go(func() {
			r, err := repo.Open(context.Background(), k.Store, k.Open)
			if err == nil {
				err = r.Sync(context.Background())
			}
			if err == nil {
				err = r.Close()
			}
			if err != nil {
				t.Error(err)
				failed.Add(1)
			}
		})
	}
	wg.Wait()
	require.Zero(t, failed.Load())
	k.mu.Lock()
	k.notes = nil
	k.mu.Unlock()
	k.mustBackup()
	k.requireWhole()
}
