package index

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// packOf is one pack with these blobs, of 100 bytes each, ten in a frame.
func packOf(packNo, first, n int) *index.Segment {
	p := index.Pack{ID: id(-1 - packNo), Size: uint64(packNo) + 1000, Table: pack.Table{Kind: pack.Data}}
	for i := range n {
		if i%10 == 0 {
			p.Table.Frames = append(p.Table.Frames, pack.Frame{Offset: uint32(i), Sealed: 500})
		}
		f := &p.Table.Frames[len(p.Table.Frames)-1]
		f.Blobs = append(f.Blobs, pack.Blob{ID: id(first + i), Len: 100})
	}
	return &index.Segment{Packs: []index.Pack{p}}
}

func findIn(t *testing.T, x *memoryIndex, n int) Found {
	t.Helper()
	var out [1]Found
	out[0].OK = true // must not remain
	require.NoError(t, x.Lookup([]format.ID{id(n)}, out[:]))
	return out[0]
}

func TestMemoryIndex(t *testing.T) {
	x := newMemoryIndex(100)
	require.NoError(t, x.Merge(id(1000), packOf(0, 0, 30)))
	require.NoError(t, x.Merge(id(1001), packOf(1, 20, 30)))
	require.NoError(t, x.Merge(id(1000), packOf(7, 0, 30)), "merged already")
	require.Equal(t, Found{Loc: Loc{Pack: 0, Offset: 10, Sealed: 500, Skip: 300, Len: 100}, OK: true}, findIn(t, x, 13))
	require.Equal(t, uint32(1), findIn(t, x, 25).Loc.Pack, "the newest place")
	require.False(t, findIn(t, x, 50).OK)
	info, err := x.Pack(1)
	require.NoError(t, err)
	require.Equal(t, PackInfo{ID: id(-2), Size: 1001}, info)
	_, err = x.Pack(2)
	require.ErrorIs(t, err, ErrNoPack)
	merged, err := x.Segments()
	require.NoError(t, err)
	require.Equal(t, map[format.ID]int64{id(1000): 0, id(1001): 0}, merged)
	require.Error(t, x.Lookup(make([]format.ID, 2), make([]Found, 1)))

	require.False(t, x.full())
	require.NoError(t, x.Merge(id(1002), packOf(2, 45, 100)))
	require.True(t, x.full())
	require.Equal(t, uint32(2), findIn(t, x, 47).Loc.Pack, "what is known gets its new place all the same")
	require.True(t, findIn(t, x, 99).OK)
	require.False(t, findIn(t, x, 100).OK, "beyond the bound")
	_, err = x.Pack(2)
	require.NoError(t, err)

	require.NoError(t, x.Drop())
	require.False(t, x.full())
	require.False(t, findIn(t, x, 13).OK)
	_, err = x.Pack(0)
	require.ErrorIs(t, err, ErrNoPack)
}

// The bound is one of memory too.
func TestMemoryOfMemoryIndex(t *testing.T) {
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 1 << 18
	before := inUse()
	x := newMemoryIndex(n)
	for i := range 2 * n / 4096 {
		require.NoError(t, x.Merge(id(10_000_000+i), packOf(i, i*4096, 4096)))
	}
	perBlob := (inUse() - before) / n
	t.Logf("%d bytes a blob", perBlob)
	require.True(t, x.full())
	require.Less(t, perBlob, int64(130))
	runtime.KeepAlive(x)
}
