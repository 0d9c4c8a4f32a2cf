package dircache

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

var repo = [16]byte{1, 2, 3}

func openAt(t testing.TB, path string) *Cache {
	t.Helper()
	f, err := cachefile.Open(path, repo, localfs.IOContext{}, Table())
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return New(f)
}

func newCache(t testing.TB) *Cache { return openAt(t, filepath.Join(t.TempDir(), "sub", "cache.db")) }

func reopen(t testing.TB, c *Cache) *Cache {
	t.Helper()
	require.NoError(t, c.Close())
	return openAt(t, c.Path())
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
	require.NoError(t, batch.Commit(id(snapshot)))
}
