package enginetest

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
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// mount mounts a file system in dir for the time of the test.
func mount(t *testing.T, what, kind, dir string, flags uintptr, options string) {
	t.Helper()
	testkit.RequireRoot(t)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if err := unix.Mount(what, dir, kind, flags, options); err != nil {
		t.Skipf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// fill takes all the room there is in dir, and returns the file that holds it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(t, err, unix.ENOSPC)
			size /= 2
		}
	}
	return path
}

// TestFullRepositoryDisk: a backup onto a full disk fails with advice and harms nothing; everything that only reads works
// on the full disk; and with room again the next backup works.
func TestFullRepositoryDisk(t *testing.T) {
	dir := ramDir(t)
	disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
	mount(t, "tmpfs", "tmpfs", disk, 0, "size=8m")
	st, err := local.Create(filepath.Join(disk, "repo"), nil)
	require.NoError(t, err)
	e := newEngine(t, st)
	written(t, src, map[string]string{"a": string(testkit.Noise(1, 1<<20)), "d/b": "b"})
	settle()
	first, _, err := e.backup(e.crashJob(src))
	require.NoError(t, err)

	written(t, src, map[string]string{"too big": string(testkit.Noise(2, 12<<20))})
	settle()
	for range 2 {
		made, _, err := e.backup(e.crashJob(src))
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "free some space")
		require.Nil(t, made)
	}
	fill(t, disk) // to the last byte
	_, _, err = e.backup(e.crashJob(src))
	require.ErrorIs(t, err, store.ErrNoSpace)

	e.open.CacheDir = ramDir(t) // as another machine that opens it
	e.requireSound()
	require.NoError(t, e.with(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.Len(t, listed, 1)
		require.NoError(t, err)
		return browse.List(context.Background(), r, listed[0].Snapshot.Tree, src, true, func(string, *tree.Node) error { return nil })
	}))
	e.requireReadable(first.ID.String(), src)

	require.NoError(t, os.Remove(filepath.Join(disk, "ballast")))
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	_, _, err = e.backup(e.crashJob(src))
	require.NoError(t, err)
	e.requireSound()
	e.requireRestored(src)
}

// TestFullCacheDisk: the cache is disposable, so a backup goes on without it.
func TestFullCacheDisk(t *testing.T) {
	for _, c := range []struct{ name, size string }{{"full from the start", "200k"}, {"no room for the index", "200k"}, {"no room for directories", "400k"}} {
		t.Run(c.name, func(t *testing.T) {
			dir := ramDir(t)
			disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
			mount(t, "tmpfs", "tmpfs", disk, 0, "size="+c.size)
			if c.name == "full from the start" {
				fill(t, disk)
			}
			for i := range 3000 {
				written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%1500, i): string(testkit.Noise(uint64(i), 300))})
			}
			settle()
			e := newEngine(t, nil)
			e.open.CacheDir = disk
			for range 2 {
				_, _, err := e.backup(e.job(src))
				require.Empty(t, e.failures())
				require.NoError(t, err)
			}
			e.requireSound()
			e.requireRestored(src)
		})
	}
}

// TestFullRestoreTarget: a restore onto a full disk ends with advice, leaves no half files, and can be continued.
func TestFullRestoreTarget(t *testing.T) {
	dir := ramDir(t)
	disk, src := filepath.Join(dir, "disk"), filepath.Join(dir, "src")
	mount(t, "tmpfs", "tmpfs", disk, 0, "size=4m")
	for i := range 60 {
		written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%7, i): string(testkit.Noise(uint64(i), 150_000))})
	}
	written(t, src, map[string]string{"large": string(testkit.Noise(99, 3<<20))})
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	out := filepath.Join(disk, "out")
	testkit.NoLeaks(t)
	_, err = e.restore(src, target(out))
	require.ErrorIs(t, err, restore.ErrFull)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NotEmpty(t, e.failures())
	requireNothingWrong(t, src, out, "on a full disk")
	require.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	totals, err := e.restore(src, restore.Target{Path: out, Verify: true})
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.NotZero(t, totals.Objects.Kept, "what was restored before is not written again")
	require.Empty(t, testkit.Compare(context.Background(), src, out, testkit.CompareOptions{}))
}

// TestCancelledRestore leaves neither half files nor anything open.
func TestCancelledRestore(t *testing.T) {
	testkit.NoLeaks(t)
	src := ramDir(t)
	for i := range 30 {
		written(t, src, map[string]string{fmt.Sprintf("d%d/f%d", i%7, i): string(testkit.Noise(uint64(i), 400_000))})
	}
	settle()
	e := newEngine(t, nil)
	_, _, err := e.backup(e.job(src))
	require.NoError(t, err)
	for after := range 8 {
		out := filepath.Join(ramDir(t), "out")
		ctx, cancel := context.WithCancel(context.Background())
		var gets atomic.Int64
		inner := e.st
		e.st = &onGet{inner, func() {
			if gets.Add(1) > int64(3+2*after) {
				cancel()
			}
		}}
		err := e.restoreCtx(ctx, src, target(out))
		cancel()
		e.st = inner
		if err == nil {
			continue // it was done before
		}
		require.ErrorIs(t, err, context.Canceled)
		requireNothingWrong(t, src, out, "cancelled")
		if names, err := filepath.Glob(filepath.Join(out, "*", ".tidemark-*")); err == nil {
			require.Empty(t, names)
		}
	}
}

// onGet calls a function before each read of a pack.
type onGet struct {
	store.Store
	pack func()
}

func (s *onGet) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Pack {
		s.pack()
	}
	return s.Store.Get(ctx, name, off, p)
}
