package dircache

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
	fmtindex "github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

var repo = [16]byte{1, 2, 3}

func tables() []cachefile.Table { return []cachefile.Table{Table(), index.Table()} }

func openAt(t testing.TB, path string) *Cache {
	t.Helper()
	f, err := cachefile.Open(path, repo, cachefile.IOContext{}, tables()...)
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

// segment returns one pack that holds the blobs, and where a lookup must find each.
func segment(packNo int, blobs []int) (*fmtindex.Segment, map[int]index.Loc) {
	p := fmtindex.Pack{ID: id(-1 - packNo), Size: uint64(packNo)*1000 + 7, Table: pack.Table{Kind: pack.Data}}
	p.Table.Salt[0], p.Table.Salt[31] = byte(packNo), 9
	where := make(map[int]index.Loc)
	offset := uint32(pack.HeaderSize)
	for len(blobs) > 0 {
		n := min(len(blobs), 20)
		f := pack.Frame{Offset: offset, Sealed: uint32(1000 + n), Codec: pack.Zstd}
		for _, b := range blobs[:n] {
			length := uint32(b%5000 + 1)
			where[b] = index.Loc{Pack: uint32(packNo), Offset: f.Offset, Sealed: f.Sealed, Skip: f.Raw, Len: length}
			f.Blobs = append(f.Blobs, pack.Blob{ID: id(b), Len: length})
			f.Raw += length
		}
		offset += f.Sealed
		p.Table.Frames = append(p.Table.Frames, f)
		blobs = blobs[n:]
	}
	return &fmtindex.Segment{Packs: []fmtindex.Pack{p}}, where
}

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
