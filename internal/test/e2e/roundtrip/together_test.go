package roundtrip

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// What is stored does not depend on whether small files are read one after the other or together, nor in which order:
// neither of a hostile tree, nor of links, nor of files that only one of several users may read.
func TestTreesDoNotDependOnHowFilesAreRead(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	shapes := map[string]func(t *testing.T, src string){
		"hostile": func(t *testing.T, src string) {
			testkit.Hostile(t, src, testkit.HostileOptions{Entries: testkit.Rounds(100, 250, 1000), Depth: 20,
				SparseSize: 16 << 20})
		},
		"one directory": func(t *testing.T, src string) {
			for i := range testkit.Rounds(400, 700, 1500) {
				path := filepath.Join(src, fmt.Sprintf("%04d", i))
				require.NoError(t, os.WriteFile(path, testkit.Noise(uint64(i), i*i%9000), 0o644))
				if i%7 == 0 {
					require.NoError(t, os.Link(path, path+" too"))
				}
				if i%100 == 0 {
					require.NoError(t, os.WriteFile(path+" large", testkit.Noise(uint64(i), 250_000+i*20), 0o644))
				}
			}
		},
	}
	for seed := range uint64(testkit.Rounds(1, 1, 4)) {
		shapes[fmt.Sprintf("seed %d", seed)] = func(t *testing.T, src string) {
			testkit.Write(t, src, testkit.Random(seed, 300, true))
		}
	}
	for name, build := range shapes {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(testkit.TempDir(t), "src")
			require.NoError(t, os.MkdirAll(src, 0o755))
			build(t, src)
			writeOut(t, src) // files with dirty pages are marked in the tree
			kit.Settle()
			e := kit.NewEngine(t, nil)
			one, before, err := e.Backup(kit.ReadAll(e.Job(src), true))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			all, after, err := e.Backup(kit.ReadAll(e.Job(src), false))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			require.Equal(t, e.Subtree(one, src), e.Subtree(all, src))
			require.Equal(t, before.Bytes.Read, after.Bytes.Read)
			require.Equal(t, before.Objects.Inspected, after.Objects.Inspected)
			require.Equal(t, before.Bytes.BeforeDedup, after.Bytes.BeforeDedup)
			again := func(job backup.Job) {
				id, now, err := e.Backup(job)
				require.NoError(t, err)
				require.Empty(t, e.Failures())
				require.Equal(t, e.Subtree(one, src), e.Subtree(id, src))
				require.Equal(t, before.Bytes.Read, now.Bytes.Read)
				require.Equal(t, before.Bytes.BeforeDedup, now.Bytes.BeforeDedup)
			}
			for _, singly := range []bool{true, false} {
				job := kit.ReadAll(e.Job(src), singly)
				var err error
				job.Source.Reading.Order, err = backup.ParseOrder("extent")
				require.NoError(t, err)
				again(job)
			}
			chill(t, src)
			again(kit.ReadAll(e.Job(src), false))
			e.RequireRestored(src)
		})
	}
}

// chill evicts the files below root from the page cache, as far as their paths are not too long.
func chill(t *testing.T, root string) {
	t.Helper()
	writeOut(t, root)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, unix.ENAMETOOLONG) {
			return fs.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, unix.ENAMETOOLONG) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return kit.Forget(f)
	}))
}

// The gate of the source hears of the same bytes whether they are read one file after the other or together, in fewer
// operations.
func TestGatesReceiveBatches(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	files := map[string]int{}
	for i := range 400 {
		files[fmt.Sprintf("%d/f%d", i%4, i)] = 1 + 20*i
	}
	g := kit.BehindGates(t, files)
	reported := func(singly bool) (bytes, ops uint64) {
		before := g.Source.Stats()
		require.NoError(t, g.MakeBackup(t.Context(), kit.ReadAll(g.Job(), singly)))
		require.Empty(t, g.Failures())
		after := g.Source.Stats()
		return after.Moved.Read - before.Moved.Read, after.Operations - before.Operations
	}
	bytes, ops := reported(true)
	together, fewer := reported(false)
	// The probe for a page in the cache reads one byte, and finds it where the kernel still holds the file.
	require.InDelta(t, bytes, together, 400)
	require.LessOrEqual(t, fewer, ops)
	t.Logf("%d bytes in %d operations, together in %d", bytes, ops, fewer)
}
