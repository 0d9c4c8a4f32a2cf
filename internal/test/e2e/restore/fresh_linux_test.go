package restore

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
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// stretchesRead records the reads of packs.
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
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	files := map[string]string{"d05/large": string(testkit.Noise(9, 3<<20)), "d07/empty": "", "d07/in the tree": "tiny"}
	for i := range 1500 {
		seed := uint64(i)
		if i%3 == 0 {
			seed = uint64(i * 7919 % 500) // a duplicate, somewhere
		}
		files[fmt.Sprintf("d%02d/f%04d", i/50, i)] = string(testkit.Noise(seed, 200+int(seed)%3000))
	}
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	seen := &stretchesRead{Store: e.Store, packs: map[string][]stretch{}}
	e.Store = seen
	dst := filepath.Join(testkit.RamDirBeside(t, dir), "out")
	_, err = e.Restore(src, restore.Target{Path: dst})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
	require.Greater(t, len(seen.packs), 10)
	for id, read := range seen.packs {
		slices.SortFunc(read, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(read); i++ {
			require.GreaterOrEqual(t, read[i].from, read[i-1].to, "pack %s: %v", id, read)
		}
	}
}

// TestForeignWritesIntoNewDirectories: an object that appears in a directory after the restore made it, and before the
// restore writes the files in it, stays as it is under every rule, and is reported.
func TestForeignWritesIntoNewDirectories(t *testing.T) {
	t.Parallel()
	for i, rule := range []string{"always", "if-changed", "if-newer", "never"} {
		t.Run(rule, func(t *testing.T) {
			dir := testkit.RamDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			files := map[string]string{"d/empty": "", "d/in the tree": "tiny"}
			for i := range 20 {
				files[fmt.Sprintf("d/f%02d", i)] = string(testkit.Noise(uint64(i), 1000))
			}
			kit.Written(t, src, files)
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			theirs := []string{"d/f03", "d/f11", "d/in the tree", "d/more"} // come after what must be read first
			inner := e.Store
			var once sync.Once
			e.Store = &kit.OnGet{Store: inner, OnPack: func() {
				if _, err := os.Lstat(filepath.Join(dst, "d")); err == nil {
					once.Do(func() {
						for _, name := range theirs {
							kit.Written(t, dst, map[string]string{name: "theirs"})
						}
					})
				}
			}}
			_, err = e.Restore(src, restore.Target{Path: dst, Overwrite: restore.Overwrite(i), Delete: true})
			require.NoError(t, err)
			reported := strings.Join(e.Failures(), "\n")
			for _, name := range theirs {
				content, err := os.ReadFile(filepath.Join(dst, name))
				require.NoError(t, err)
				require.Equal(t, "theirs", string(content), name)
				require.Equal(t, name != "d/more", strings.Contains(reported, name), "%s\n%s", name, reported)
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

// TestAllocationsOfARestore: what a small file costs does not depend on how many there are. Directories, frames and
// windows allocate; a file has a chunk looked up, is written, and leaves nothing behind.
func TestAllocationsOfARestore(t *testing.T) {
	testkit.Slow(t)
	allocations := func(files int) uint64 {
		dir := testkit.RamDir(t)
		src := filepath.Join(dir, "src")
		all := map[string]string{}
		for i := range files {
			all[fmt.Sprintf("d/f%05d", i)] = fmt.Sprintf("%0300d", i)
		}
		kit.Written(t, src, all)
		kit.Settle()
		e := kit.NewEngine(t, nil)
		_, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = e.Restore(src, kit.Target(filepath.Join(dir, "dst")))
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		return after.Mallocs - before.Mallocs
	}
	perFile := float64(allocations(3000)-allocations(1000)) / 2000
	t.Logf("%.2f allocations a file", perFile)
	require.Less(t, perFile, 2.0, "one, with what else goes on in this process")
}
