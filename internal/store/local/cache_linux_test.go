package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store/local"
)

// cachedPart returns how much of a file is in the page cache, from 0 to 1. It skips the test where that is unknown.
func cachedPart(t *testing.T, path string) float64 {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	var st unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0); err != nil {
		t.Skip("no cachestat here: ", err)
	}
	return float64(st.Cache) * float64(os.Getpagesize()) / float64(info.Size())
}

// What reading packs brought into memory goes again; what was there stays.
func TestReadingPacksLeavesThePageCacheAsItWas(t *testing.T) {
	st, root := create(t)
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(root, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("temporary files are in memory here")
	}
	data := make([]byte, 16<<20)
	data[5<<20] = 1
	require.NoError(t, st.Put(t.Context(), packName("a"), data))
	path := filepath.Join(root, "packs", "aa", packName("a").ID)
	require.Less(t, cachedPart(t, path), 0.1, "after it was written")
	p := make([]byte, 2<<20)
	for off := int64(0); off < int64(len(data)); off += int64(len(p)) {
		require.NoError(t, st.Get(t.Context(), packName("a"), off, p))
		require.Equal(t, data[off:off+int64(len(p))], p)
	}
	require.Less(t, cachedPart(t, path), 0.3, "but for what the system has read ahead")
	_, err := os.ReadFile(path)
	require.NoError(t, err)
	if cachedPart(t, path) < 1 {
		t.Skip("memory is short here")
	}
	again, err := local.Open(root, nil) // has not read the pack yet
	require.NoError(t, err)
	require.NoError(t, again.Get(t.Context(), packName("a"), 0, p))
	require.EqualValues(t, 1, cachedPart(t, path))
}
