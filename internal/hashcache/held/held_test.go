package held

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

func id(n int) format.ID {
	return format.ID(blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(n))))
}

// segment is one pack with these blobs, of 100 bytes each, ten in a frame.
func segment(packNo, first, n int) *index.Segment {
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

func find(t *testing.T, x *Index, n int) hashcache.Found {
	t.Helper()
	var out [1]hashcache.Found
	out[0].OK = true // must not shine through
	require.NoError(t, x.Lookup([]format.ID{id(n)}, out[:]))
	return out[0]
}

func TestIndex(t *testing.T) {
	x := New(100)
	require.NoError(t, x.Merge(id(1000), segment(0, 0, 30)))
	require.NoError(t, x.Merge(id(1001), segment(1, 20, 30)))
	require.NoError(t, x.Merge(id(1000), segment(7, 0, 30)), "merged already")
	require.Equal(t, hashcache.Found{Loc: hashcache.Loc{Pack: 0, Offset: 10, Sealed: 500, Skip: 300, Len: 100}, OK: true}, find(t, x, 13))
	require.Equal(t, uint32(1), find(t, x, 25).Loc.Pack, "the newest place")
	require.False(t, find(t, x, 50).OK)
	info, err := x.Pack(1)
	require.NoError(t, err)
	require.Equal(t, hashcache.PackInfo{ID: id(-2), Kind: pack.Data, Size: 1001}, info)
	_, err = x.Pack(2)
	require.ErrorIs(t, err, hashcache.ErrNoPack)
	ids, err := x.Segments()
	require.NoError(t, err)
	require.ElementsMatch(t, []format.ID{id(1000), id(1001)}, ids)
	require.Error(t, x.Lookup(make([]format.ID, 2), make([]hashcache.Found, 1)))

	require.False(t, x.Full())
	require.NoError(t, x.Merge(id(1002), segment(2, 45, 100)))
	require.True(t, x.Full())
	require.Equal(t, uint32(2), find(t, x, 47).Loc.Pack, "what is known gets its new place all the same")
	require.True(t, find(t, x, 99).OK)
	require.False(t, find(t, x, 100).OK, "beyond the bound")
	_, err = x.Pack(2)
	require.NoError(t, err)

	require.NoError(t, x.Drop())
	require.False(t, x.Full())
	require.False(t, find(t, x, 13).OK)
	_, err = x.Pack(0)
	require.ErrorIs(t, err, hashcache.ErrNoPack)
}

// The bound is one of memory too.
func TestMemory(t *testing.T) {
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 1 << 18
	before := inUse()
	x := New(n)
	for i := range 2 * n / 4096 {
		require.NoError(t, x.Merge(id(10_000_000+i), segment(i, i*4096, 4096)))
	}
	perBlob := (inUse() - before) / n
	t.Logf("%d bytes a blob", perBlob)
	require.True(t, x.Full())
	require.Less(t, perBlob, int64(130))
	runtime.KeepAlive(x)
}
