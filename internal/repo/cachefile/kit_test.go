package cachefile_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

var repo = [16]byte{1, 2, 3}

func table() cachefile.Table { return dircache.Table() }

// cache is a cache file with its user.
type cache struct {
	*cachefile.File
	dirs *dircache.Cache
}

func newUser(f *cachefile.File) *cache { return &cache{f, dircache.New(f)} }

func openAt(t testing.TB, path string) *cache {
	t.Helper()
	f, err := cachefile.Open(path, repo, localfs.IOContext{}, table())
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return newUser(f)
}

func newCache(t testing.TB) *cache { return openAt(t, filepath.Join(t.TempDir(), "sub", "cache.db")) }

func reopen(t testing.TB, c *cache) *cache {
	t.Helper()
	require.NoError(t, c.Close())
	return openAt(t, c.Path())
}

// id returns the i-th of a sequence of random-looking IDs.
func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

func key(i int) (k [16]byte) {
	full := id(-1_000_000 - i)
	copy(k[:], full[:])
	return k
}
