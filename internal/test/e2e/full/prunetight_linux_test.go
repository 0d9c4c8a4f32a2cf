package full

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// crowded is a repository on a small disk, with the cache and the folder for temporary files, in which other files have
// left so many pages. What the forgotten snapshot needed alone lies in packs of its own, in one index segment with the
// packs of thousands of small files: a new segment takes far more than what is left.
func crowded(t *testing.T, pages int64) (p *kit.Pruned, disk string) {
	t.Helper()
	dir := testkit.RamDir(t)
	disk = filepath.Join(dir, "disk")
	testkit.MountMemory(t, disk, "32m")
	st, err := local.Create(filepath.Join(disk, "repo"), nil)
	require.NoError(t, err)
	p = &kit.Pruned{Engine: kit.NewEngine(t, st), Src: filepath.Join(dir, "src"), Dir: dir,
		Contents: map[format.ID]string{}}
	p.Parallel = kit.Parallel(1, 1, 1) // so that packs are of one kind of file
	p.Open.Cache.Dir = filepath.Join(disk, "cache")
	for _, name := range []string{"cache", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(disk, name), 0o700))
	}
	files := map[string]string{}
	for i := range 4000 {
		files[fmt.Sprintf("keep/d%d/f%d", i%20, i)] = string(testkit.Noise(uint64(i), 300))
	}
	for i := range 10 {
		files[fmt.Sprintf("trash/f%d", i)] = string(testkit.Noise(uint64(10_000+i), 1<<20))
	}
	kit.Written(t, p.Src, files)
	kit.Settle()
	job := p.Job(p.Src)
	job.Session.Tuning.DataPack = 1 << 20
	old, _, err := p.Backup(job)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(p.Src, "trash")))
	kit.Settle()
	made, _, err := p.Backup(job)
	require.NoError(t, err)
	p.Keep(made.ID)
	p.Forget(old.ID)
	ballast := kit.Fill(t, disk)
	info, err := os.Stat(ballast)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(ballast, info.Size()/4096*4096-pages*4096))
	return p, disk
}

// TestPruneOfADiskThatIsFullToTheLastPages: to remove what nothing needs takes the space of two small files, wherever
// the index would lie. With less, prune says what to do, and removes nothing.
func TestPruneOfADiskThatIsFullToTheLastPages(t *testing.T) {
	testkit.Slow(t)
	temp := os.Getenv("TMPDIR")
	for _, c := range []struct {
		pages int64
		works bool
	}{{0, false}, {1, false}, {2, true}, {3, true}, {8, true}} {
		t.Run(fmt.Sprintf("%d KiB", 4*c.pages), func(t *testing.T) {
			p, disk := crowded(t, c.pages)
			var fs unix.Statfs_t
			require.NoError(t, unix.Statfs(disk, &fs))
			before := kit.BytesOf(t, p.Store, store.Pack)
			var said []string
			t.Setenv("TMPDIR", filepath.Join(disk, "tmp"))
			opt := prune.Options{Scratch: p.Open.Cache.Dir, MaxUnused: prune.Limit{None: true}}
			opt.Note = func(text string) { said = append(said, text) }
			res, err := p.Prune(opt)
			t.Setenv("TMPDIR", temp)
			t.Logf("%d KiB were free: %v\n%s", fs.Bavail*uint64(fs.Bsize)>>10, err, strings.Join(said, "\n"))
			after := kit.BytesOf(t, p.Store, store.Pack)
			if c.works {
				require.NoError(t, err)
				require.Less(t, after, before-2<<20)
				require.EqualValues(t, before-after, res.Deleted.Bytes)
				require.Contains(t, strings.Join(said, "\n"), "the disk is full")
			} else {
				require.ErrorIs(t, err, store.ErrNoSpace)
				require.ErrorContains(t, err, "remove or move a file that is not tidemark's")
				require.Equal(t, before, after)
			}
			require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
			require.Zero(t, kit.Count(t, p.Store, store.Lease))
			p.RequireWhole("after the prune")
			_, err = p.Prune(prune.Options{Scratch: p.Open.Cache.Dir})
			require.NoError(t, err)
			require.Zero(t, kit.Count(t, p.Store, store.Mark))
			p.RequireWhole("after a prune with space")
		})
	}
}
