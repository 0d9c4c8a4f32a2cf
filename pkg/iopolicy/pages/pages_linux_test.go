package pages_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const size = 1 << 20

// cached returns which pages of an open file are in memory. It skips the test where the kernel lacks cachestat.
func cached(t *testing.T, f *os.File) unix.Cachestat_t {
	t.Helper()
	var st unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: size}, &st, 0)
	if err != nil {
		t.Skip("no cachestat here: ", err)
	}
	return st
}

func file(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	var fs unix.Statfs_t
	require.NoError(t, unix.Fstatfs(int(f.Fd()), &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("temporary files are in memory here: there is no device")
	}
	_, err = f.Write(make([]byte, size))
	require.NoError(t, err)
	return f
}

func TestPushLeavesNothingToBeWrittenLater(t *testing.T) {
	f := file(t)
	before := cached(t, f)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a sync(2) of any process writes it out as well
		_, err := f.WriteAt(make([]byte, size), 0)
		require.NoError(c, err)
		before = cached(t, f)
		require.EqualValues(c, size/os.Getpagesize(), before.Dirty)
	}, time.Minute, time.Millisecond)
	require.NoError(t, pages.Push(int(f.Fd()), 0, size/2, true))
	half := cached(t, f)
	require.LessOrEqual(t, half.Dirty, before.Cache/2, "what shares a large page with the range goes too")
	require.NoError(t, pages.Push(int(f.Fd()), 0, 0, false))
	require.Zero(t, cached(t, f).Dirty, "all is on its way")
	require.NoError(t, pages.Push(int(f.Fd()), 0, 0, true))
	done := cached(t, f)
	require.Zero(t, done.Dirty+done.Writeback)
}

func TestPushWhereThereIsNothingToPushTo(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.NoError(t, pages.Push(int(w.Fd()), 0, 0, true))
	require.Error(t, pages.Push(-1, 0, 0, true))
}

func TestReadAhead(t *testing.T) {
	f := file(t)
	require.NoError(t, f.Sync())
	brought := func(on bool) uint64 {
		require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		pages.ReadAhead(int(f.Fd()), on)
		_, err := f.ReadAt(make([]byte, 4096), 0)
		require.NoError(t, err)
		return cached(t, f).Cache
	}
	few := brought(false)
	require.Less(t, few*uint64(os.Getpagesize()), uint64(64<<10))
	require.Greater(t, brought(true), few)
}
