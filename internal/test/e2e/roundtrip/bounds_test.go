package roundtrip

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// comb makes a chain of directories, each with files and with further directories before and behind the one that goes
// deeper, so that a walk has something left to do on every level. The paths are longer than system calls take.
func comb(t *testing.T, root string, depth int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(root, 0o755))
	at, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for level := range depth {
		for _, name := range []string{"a", "next", "z"} {
			require.NoError(t, unix.Mkdirat(at, name, 0o755))
		}
		for name, size := range map[string]int{"a/inline": 20, "z/small": 200} {
			f, err := unix.Openat(at, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			require.NoError(t, err)
			_, err = unix.Write(f, testkit.Noise(uint64(level), size))
			require.NoError(t, err)
			require.NoError(t, unix.Close(f))
		}
		next, err := unix.Openat(at, "next", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(at))
		at = next
	}
	require.NoError(t, unix.Close(at))
}

// TestDeepTreeWithFewDescriptors: a tree much deeper than the number of files a process may open.
func TestDeepTreeWithFewDescriptors(t *testing.T) {
	testkit.Slow(t)
	const depth, descriptors = 1000, 256
	if kit.Role() == "" { // this process keeps its descriptors: it makes the tree, and removes it
		dir := testkit.RamDir(t)
		comb(t, filepath.Join(dir, "src"), depth)
		kit.Settle()
		out, err := kit.Again(t, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	limit := unix.Rlimit{Cur: descriptors, Max: descriptors}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	src, dst := filepath.Join(kit.Role(), "src"), filepath.Join(kit.Role(), "dst")
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(4, 4, 2)
	for range 2 {
		_, totals, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		require.GreaterOrEqual(t, totals.Objects.Dirs, uint64(3*depth))
		require.EqualValues(t, 2*depth, totals.Objects.Files)
	}
	totals, err := e.Restore(src, restore.Target{Path: dst, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.EqualValues(t, 2*depth, totals.Objects.Verified)
}

// gauge watches a value while a job runs, and keeps the highest.
func gauge(read func() uint64) (highest func() uint64) {
	var most atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			most.Store(max(most.Load(), read()))
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-stopped
		return most.Load()
	}
}

// liveHeap is what the last collection found in use, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestMemoryDoesNotFollowTheNumberOfFiles backs up one directory of very many entries, and very many directories, and
// watches the live heap, goroutines and descriptors.
func TestMemoryDoesNotFollowTheNumberOfFiles(t *testing.T) {
	testkit.Slow(t)
	entries, dirs := testkit.Rounds(20_000, 30_000, 50_000), testkit.Rounds(8_000, 12_000, 20_000)
	if *kit.Soak > 0 {
		entries, dirs = 200_000, 100_000
	}
	src := testkit.RamDir(t)
	shapes := map[string]func(t *testing.T, dir string){
		"one directory": func(t *testing.T, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o755))
			for i := range entries {
				makeFile(t, filepath.Join(dir, fmt.Sprintf("an entry of this directory %07d", i)))
			}
		},
		"many directories": func(t *testing.T, dir string) {
			for i := range dirs {
				path := filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprint(i/100))
				require.NoError(t, os.MkdirAll(path, 0o755))
				makeFile(t, filepath.Join(path, "f"))
			}
		},
	}
	const fixed = 40 << 20 // buffers and caches, of the size they have here
	bounds := map[string]uint64{
		"one directory":    fixed + uint64(entries)*500, // the entries of one directory are held while it is worked on
		"many directories": fixed,
	}
	for name, build := range shapes {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(src, name)
			build(t, dir)
			kit.Settle()
			st, err := local.Create(filepath.Join(src, "repository"+name), nil)
			require.NoError(t, err)
			e := kit.NewEngine(t, st)
			job := e.Job(dir)
			job.Session.Tuning.DataPack, job.Session.Tuning.TreePack = 1<<20, 1<<20
			for _, pass := range []string{"first", "second"} {
				runtime.GC()
				base := liveHeap()
				defer debug.SetGCPercent(debug.SetGCPercent(20))
				heap, goroutines := gauge(liveHeap), gauge(func() uint64 { return uint64(runtime.NumGoroutine()) })
				files := gauge(countFiles)
				_, _, err := e.Backup(job)
				require.NoError(t, err)
				require.Empty(t, e.Failures())
				mib := (max(heap(), base) - base) >> 20
				running, open := goroutines(), files()
				t.Logf("%s: %d MiB of heap, %d goroutines, %d descriptors", pass, mib, running, open)
				require.LessOrEqual(t, mib<<20, bounds[name])
				require.LessOrEqual(t, running, uint64(60))
				// Each of the readers has 64 small files open at a time.
				require.LessOrEqual(t, open, uint64(150+64*e.Parallel.Readers.Most))
			}
		})
	}
}

func makeFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func countFiles() uint64 {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return uint64(len(names))
}
