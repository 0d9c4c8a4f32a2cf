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
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// filledDisk is a repository on a small disk, together with its cache, that backups have filled. Most of each of its
// packs is needed by the snapshot that made it alone. It returns the folder of the disk.
func filledDisk(t *testing.T, megabytes string) (p *kit.Pruned, disk string) {
	t.Helper()
	dir := testkit.RamDir(t)
	disk = filepath.Join(dir, "disk")
	testkit.MountMemory(t, disk, megabytes+"m")
	st, err := local.Create(filepath.Join(disk, "repo"), nil)
	require.NoError(t, err)
	p = &kit.Pruned{Engine: kit.NewEngine(t, st), Src: filepath.Join(dir, "src"), Dir: dir,
		Contents: map[format.ID]string{}, Few: true}
	require.NoError(t, os.Mkdir(filepath.Join(disk, "cache"), 0o700))
	p.Open.Cache.Dir = filepath.Join(disk, "cache")
	require.NoError(t, os.MkdirAll(p.Src, 0o755))
	for i := uint64(0); ; i++ {
		name := string(rune('a' + i))
		require.NoError(t, os.RemoveAll(filepath.Join(p.Src, "large")))
		kit.Written(t, p.Src, map[string]string{"large": string(testkit.Noise(i, 1_400_000)),
			name: string(testkit.Noise(100+i, 350_000))})
		kit.Settle()
		made, _, err := p.Backup(p.Job(p.Src))
		if err != nil {
			require.ErrorIs(t, err, store.ErrNoSpace)
			require.ErrorContains(t, err, "kept free for 'tidemark prune'")
			break
		}
		for old := range p.Contents {
			delete(p.Contents, old)
		}
		p.Keep(made.ID)
		require.Less(t, i, uint64(20))
	}
	return p, disk
}

func forgetOlder(p *kit.Pruned) {
	var older []format.ID
	for info, err := range p.Store.List(p.T.Context(), store.Snapshot) {
		require.NoError(p.T, err)
		if id, err := format.ParseID(info.Name.ID); err == nil && p.Contents[id] == "" {
			older = append(older, id)
		}
	}
	p.Forget(older...)
}

// TestPruneOfADiskThatBackupsFilled: partly needed packs are repacked, although there is no space for all of them, nor
// for one full pack.
func TestPruneOfADiskThatBackupsFilled(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p, _ := filledDisk(t, "24")
	forgetOlder(p)
	before := kit.BytesOf(t, p.Store, store.Pack)
	var said []string
	opt := prune.Options{Scratch: p.Open.Cache.Dir}
	opt.Note = func(text string) { said = append(said, text) }
	_, err := p.Prune(opt)
	require.NoError(t, err)
	require.Contains(t, strings.Join(said, "\n"), "repacking in small rounds")
	require.Less(t, kit.BytesOf(t, p.Store, store.Pack), before/2)
	p.RequireWhole("after the prune")
}

// TestPruneOfADiskThatOthersFilled: other files have taken the space that backups left. What the forgotten snapshots
// took is enough for a prune that writes no pack, and the temporary index goes elsewhere.
func TestPruneOfADiskThatOthersFilled(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p, disk := filledDisk(t, "24")
	ballast := kit.Fill(t, disk)
	forgetOlder(p)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(disk, &fs))
	before := kit.BytesOf(t, p.Store, store.Pack)
	_, err := p.Prune(prune.Options{Scratch: p.Open.Cache.Dir, MaxUnused: prune.Limit{None: true}})
	require.NoError(t, err, "%d KiB were free", fs.Bavail*uint64(fs.Bsize)>>10)
	_, err = p.Prune(prune.Options{Scratch: p.Open.Cache.Dir})
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.ErrorContains(t, err, "free space")
	p.RequireSound()
	require.NoError(t, os.Remove(ballast))
	_, err = p.Prune(prune.Options{Scratch: p.Open.Cache.Dir})
	require.NoError(t, err)
	require.Less(t, kit.BytesOf(t, p.Store, store.Pack), before/2)
	p.RequireWhole("after the prune")
}

// TestPruneWhereTheCacheHasSpaceForOneIndex: the index of the second survey fits only without that of the first.
func TestPruneWhereTheCacheHasSpaceForOneIndex(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := kit.NewPruned(t, mem.New())
	for i := range uint64(1200) {
		require.NoError(t, os.WriteFile(filepath.Join(base.Src, fmt.Sprint(i)), testkit.Noise(i, 1200), 0o644))
	}
	old := base.Snapshot(1)
	base.Snapshot(2)
	base.Forget(old)
	fits := func(dry bool, size int) bool {
		p := base.Copied(t)
		opt := kit.SmallPrune()
		opt.DryRun, opt.MaxUnused = dry, prune.Limit{None: true}
		opt.Scratch = filepath.Join(testkit.RamDir(t), "scratch")
		testkit.MountMemory(t, opt.Scratch, fmt.Sprintf("%dk", size))
		noted := false
		opt.Note = func(string) { noted = true }
		res, err := p.Prune(opt)
		require.NoError(t, err)
		require.NotZero(t, res.Deleted.Packs)
		if !dry {
			p.RequireWhole("after the prune")
		}
		return !noted
	}
	const step, spare = 8, 16 // KiB
	size := step
	for !fits(true, size) {
		size += step
	}
	t.Logf("an index takes %d KiB", size)
	require.Greater(t, size, 3*spare)
	require.True(t, fits(false, size+spare))
}

// TestPruneWhereTheCacheIsFull: the disk of the cache has no space for the lock of prune and for the temporary index.
func TestPruneWhereTheCacheIsFull(t *testing.T) {
	t.Parallel()
	p := kit.BesideBase(t)
	scratch := filepath.Join(testkit.RamDir(t), "scratch")
	testkit.MountMemory(t, scratch, "64k")
	kit.Fill(t, scratch)
	opt := kit.SmallPrune()
	opt.Scratch = scratch
	var said []string
	opt.Note = func(text string) { said = append(said, text) }
	res, err := p.Prune(opt)
	require.NoError(t, err)
	require.NotZero(t, res.Deleted.Packs)
	require.Contains(t, strings.Join(said, "\n"), "no space for the temporary index")
	p.RequireWhole("after the prune")
}
