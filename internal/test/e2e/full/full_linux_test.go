package full

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestFullRepositoryDisk: a backup onto a full disk fails with advice and harms nothing; everything that only reads
// works on the full disk; and with space again the next backup works.
func TestFullRepositoryDisk(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
	testkit.MountMemory(t, disk, "8m")
	st, err := local.Create(filepath.Join(disk, "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	kit.Written(t, src, map[string]string{"a": string(testkit.Noise(1, 1<<20)), "d/b": "b"})
	kit.Settle()
	first, _, err := e.Backup(e.CrashJob(src))
	require.NoError(t, err)

	kit.Written(t, src, map[string]string{"too big": string(testkit.Noise(2, 12<<20))})
	kit.Settle()
	for range 2 {
		made, _, err := e.Backup(e.CrashJob(src))
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "free some space")
		require.Nil(t, made)
	}
	kit.Fill(t, disk) // to the last byte
	_, _, err = e.Backup(e.CrashJob(src))
	require.ErrorIs(t, err, store.ErrNoSpace)

	e.Open.Cache.Dir = testkit.RamDir(t) // as another machine that opens it
	e.RequireSound()
	require.NoError(t, e.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.Len(t, listed, 1)
		require.NoError(t, err)
		return browse.List(context.Background(), r.LoadBlob, listed[0].Snapshot.Tree, src, true,
			func(string, *tree.Node) error { return nil })
	}))
	e.RequireReadable(first.ID.String(), src)

	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	_, _, err = e.Backup(e.CrashJob(src))
	require.NoError(t, err)
	e.RequireSound()
	e.RequireRestored(src)
}

// TestFullCacheDisk: the cache is disposable, so a backup continues without it.
func TestFullCacheDisk(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, c := range []struct{ name, size string }{{"full from the start", "200k"}, {"no room for the index", "200k"},
		{"no room for directories", "400k"}} {
		t.Run(c.name, func(t *testing.T) {
			dir := testkit.RamDir(t)
			disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
			testkit.MountMemory(t, disk, c.size)
			if c.name == "full from the start" {
				kit.Fill(t, disk)
			}
			for i := range 3000 {
				kit.Written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%1500, i): string(testkit.Noise(uint64(i), 300))})
			}
			kit.Settle()
			e := kit.NewEngine(t, nil)
			e.Open.Cache.Dir = disk
			for range 2 {
				_, _, err := e.Backup(e.Job(src))
				require.Empty(t, e.Failures())
				require.NoError(t, err)
			}
			e.RequireSound()
			e.RequireRestored(src)
		})
	}
}

// TestFullRestoreTarget: a restore onto a full disk ends with advice, leaves no half files, and can be continued.
func TestFullRestoreTarget(t *testing.T) {
	dir := testkit.RamDir(t)
	disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
	testkit.MountMemory(t, disk, "4m")
	for i := range 60 {
		kit.Written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%7, i): string(testkit.Noise(uint64(i), 150_000))})
	}
	kit.Written(t, src, map[string]string{"large": string(testkit.Noise(99, 3<<20))})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	out := filepath.Join(disk, "out")
	testkit.NoLeaks(t)
	_, err = e.Restore(src, kit.Target(out))
	require.ErrorIs(t, err, restore.ErrFull)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NotEmpty(t, e.Failures())
	kit.RequireNothingWrong(t, src, out, "on a full disk")
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	totals, err := e.Restore(src, restore.Target{Path: out, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	require.NotZero(t, totals.Objects.Kept, "what was restored before is not written again")
	require.Empty(t, testkit.Compare(context.Background(), src, out, testkit.CompareOptions{}))
}

// TestCancelledRestore leaves neither half files nor anything open.
func TestCancelledRestore(t *testing.T) {
	testkit.NoLeaks(t)
	src := testkit.RamDir(t)
	for i := range 30 {
		kit.Written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%7, i): string(testkit.Noise(uint64(i), 400_000))})
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	for after := range 8 {
		out := filepath.Join(testkit.RamDir(t), "out")
		ctx, cancel := context.WithCancel(context.Background())
		var gets atomic.Int64
		inner := e.Store
		e.Store = &kit.OnGet{Store: inner, OnPack: func() {
			if gets.Add(1) > int64(3+2*after) {
				cancel()
			}
		}}
		err := e.RestoreCtx(ctx, src, kit.Target(out))
		cancel()
		e.Store = inner
		if err == nil {
			continue // it was done before
		}
		require.ErrorIs(t, err, context.Canceled)
		kit.RequireNothingWrong(t, src, out, "cancelled")
		if names, err := filepath.Glob(filepath.Join(out, "*", ".tidemark-*")); err == nil {
			require.Empty(t, names)
		}
	}
}
