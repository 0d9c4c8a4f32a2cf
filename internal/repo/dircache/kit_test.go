package dircache

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

var repo = [16]byte{1, 2, 3}

func openAt(t testing.TB, path string) *Cache {
	t.Helper()
	c, note := openNoted(t, path)
	require.Empty(t, note)
	return c
}

func openNoted(t testing.TB, path string) (*Cache, string) {
	t.Helper()
	c, note, err := Open(path, repo, localfs.IOContext{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.lock.Close() })
	return c, note
}

func newCache(t testing.TB) *Cache { return openAt(t, filepath.Join(t.TempDir(), "sub", "dirs")) }

// files returns the names in the folder of a cache, but for the lock.
func files(t testing.TB, c *Cache) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

func reopen(t testing.TB, c *Cache) *Cache {
	t.Helper()
	require.NoError(t, c.Close())
	return openAt(t, c.dir)
}

// id returns the i-th of a sequence of random-looking IDs.
func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

// remember commits a batch of directories numbered from first on, with a value as long as that of a backup.
func remember(t testing.TB, c *Cache, snapshot, first, n int) {
	t.Helper()
	batch := c.NewBatch()
	value := make([]byte, 64)
	for i := first; i < first+n; i++ {
		binary.LittleEndian.PutUint64(value, uint64(i))
		require.NoError(t, batch.Put(key(i), value))
	}
	require.NoError(t, batch.Commit(id(snapshot), nil))
}
