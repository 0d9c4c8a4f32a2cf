package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// stretchesRead notes what is read of packs.
type stretchesRead struct {
	store.Store

	mu    sync.Mutex
	packs map[string][]stretch
}

type stretch struct{ from, to int64 }

func (s *stretchesRead) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack {
		s.mu.Lock()
		s.packs[name.ID] = append(s.packs[name.ID], stretch{off, off + int64(len(p))})
		s.mu.Unlock()
	}
	return s.Store.Get(ctx, name, off, p)
}

// TestRestoreReadsEachFrameOnce: files that share their content with others far away, and one that is in many frames,
// are restored without reading any byte of a pack twice.
func TestRestoreReadsEachFrameOnce(t *testing.T) {
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	files := map[string]string{"d05/large": string(testkit.Noise(9, 3<<20)), "d07/empty": "", "d07/in the tree": "tiny"}
	for i := range 1500 {
		seed := uint64(i)
		if i%3 == 0 {
			seed = uint64(i * 7919 % 500) // a duplicate, somewhere
		}
		files[fmt.Sprintf("d%02d/f%04d", i/50, i)] = string(testkit.Noise(seed, 200+int(seed)%3000))
	}
	written(t, src, files)
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.crashJob(src))
	require.NoError(t, err)
	seen := &stretchesRead{Store: e.st, packs: map[string][]stretch{}}
	e.st = seen
	dst := filepath.Join(besides(t, dir), "out")
	_, err = e.restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
	require.Greater(t, len(seen.packs), 10)
	for id, read := range seen.packs {
		slices.SortFunc(read, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(read); i++ {
			require.GreaterOrEqual(t, read[i].from, read[i-1].to, "pack %s: %v", id, read)
		}
	}
}

// TestSomebodyWritesIntoNewDirectories: what appears in a directory that the restore has made, before it comes to the
// files in it, stays as it is under every rule, and is told.
func TestSomebodyWritesIntoNewDirectories(t *testing.T) {
	for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
		t.Run(rule, func(t *testing.T) {
			dir := ramDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			files := map[string]string{"d/empty": "", "d/in the tree": "tiny"}
			for i := range 20 {
				files[fmt.Sprintf("d/f%02d", i)] = string(testkit.Noise(uint64(i), 1000))
			}
			written(t, src, files)
			settle()
			e := newEngine(t, nil)
			_, _, err := e.backup(e.job(src))
			require.NoError(t, err)
			theirs := []string{"d/f03", "d/f11", "d/in the tree", "d/more"} // come after what must be read first
			inner := e.st
			var once sync.Once
			e.st = &onGet{inner, func() {
				if _, err := os.Lstat(filepath.Join(dst, "d")); err == nil {
					once.Do(func() {
						for _, name := range theirs {
							written(t, dst, map[string]string{name: "theirs"})
						}
					})
				}
			}}
			_, err = e.restore(src, restore.Target{Path: dst, Overwrite: restore.Overwrite(i), Delete: true})
			require.NoError(t, err)
			told := strings.Join(e.failures(), "\n")
			for _, name := range theirs {
				content, err := os.ReadFile(filepath.Join(dst, name))
				require.NoError(t, err)
				require.Equal(t, "theirs", string(content), name)
				require.Equal(t, name != "d/more", strings.Contains(told, name), "%s\n%s", name, told)
			}
			for name, want := range files {
				if slices.Contains(theirs, name) {
					continue
				}
				content, err := os.ReadFile(filepath.Join(dst, name))
				require.NoError(t, err)
				require.True(t, want == string(content), name)
			}
			require.Len(t, filesBelow(t, dst), len(files)+1, "no temporary file is left")
		})
	}
}

// TestAllocationsOfARestore: what a small file costs does not depend on how many there are. Directories, frames and windows
// allocate; a file has a chunk looked up, is written, and leaves nothing behind.
func TestAllocationsOfARestore(t *testing.T) {
	allocations := func(files int) uint64 {
		dir := ramDir(t)
		src := filepath.Join(dir, "src")
		all := map[string]string{}
		for i := range files {
			all[fmt.Sprintf("d/f%05d", i)] = fmt.Sprintf("%0300d", i)
		}
		written(t, src, all)
		settle()
		e := newEngine(t, nil)
		_, _, err := e.backup(e.job(src))
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = e.restore(src, target(filepath.Join(dir, "dst")))
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Empty(t, e.failures())
		return after.Mallocs - before.Mallocs
	}
	perFile := float64(allocations(3000)-allocations(1000)) / 2000
	t.Logf("%.2f allocations a file", perFile)
	require.Less(t, perFile, 0.5)
}
