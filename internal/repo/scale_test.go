package repo_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// counted counts the bytes of index segments that were read.
type counted struct {
	store.Store
	index atomic.Int64
}

func (c *counted) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Index {
		c.index.Add(int64(len(p)))
	}
	return c.Store.Get(ctx, name, off, p)
}

// manyBlobs puts index segments for n blobs into st, as sessions would: 16 packs of 4096 blobs in each. The packs
// themselves are missing; only a read of a blob would need them.
func manyBlobs(t testing.TB, st store.Store, keys *seal.Keys, n int) {
	t.Helper()
	const perFrame, frames, packs = 256, 16, 16
	next := uint64(0)
	id := func(use string) format.ID {
		next++
		return blake3.Sum256(binary.LittleEndian.AppendUint64([]byte(use), next))
	}
	for next < uint64(n) {
		seg := index.Segment{}
		for range packs {
			p := index.Pack{ID: id("pack"), Size: pack.MaxPack, Table: pack.Table{Kind: pack.Data}}
			offset := uint32(pack.HeaderSize)
			for range frames {
				f := pack.Frame{Offset: offset, Sealed: 100_000, Codec: pack.Zstd}
				for range perFrame {
					f.Blobs = append(f.Blobs, pack.Blob{ID: id("blob"), Len: 4000})
					f.Raw += 4000
				}
				offset += f.Sealed
				p.Table.Frames = append(p.Table.Frames, f)
			}
			seg.Packs = append(seg.Packs, p)
		}
		data, name := object.Seal(keys, store.Index, index.Encode(nil, &seg))
		require.NoError(t, st.Put(t.Context(), object.Named(store.Index, name), data))
	}
}

// inUse returns the bytes of the heap that are reachable.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what lay in pools survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A machine that has seen the index neither reads it again nor holds it, however large it is. Memory after opening and
// updating does not grow with the index: less than half a byte a blob (a blob takes 36 in a segment, 53 in the cache).
// The first look-up reads the filters: ten bits a blob, never more than 16 MiB.
func TestOpeningDoesNotReadTheIndex(t *testing.T) {
	testkit.Slow(t)
	held := func(blobs int) (opened, searched int64) {
		st := &counted{Store: mem.New()}
		first := initialise(t, st)
		manyBlobs(t, st, first.Keys(), blobs)
		opt := repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: t.TempDir()}}
		r := openWith(t, st, opt)
		require.NoError(t, r.Sync(t.Context()))
		require.Greater(t, st.index.Load(), int64(blobs*format.IDSize), "the first run on a machine reads it all")
		require.NoError(t, r.Close())

		st.index.Store(0)
		before := inUse()
		r = openWith(t, st, opt)
		_, err := r.Snapshots(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Sync(t.Context()))
		opened = inUse() - before
		require.Zero(t, st.index.Load())
		ids := []format.ID{{1}, {2}, {3}}
		require.NoError(t, r.Known(t.Context(), ids, make([]blobindex.Found, len(ids)))) // reads the filters
		searched = inUse() - before
		require.Zero(t, st.index.Load())
		runtime.KeepAlive(r)
		return opened, searched
	}
	small, _ := held(64 << 10)
	large, searched := held(512 << 10)
	require.Less(t, large-small, int64((512<<10)-(64<<10))/2)
	require.Less(t, searched-large, int64(512<<10*10/8+512<<10), "filters")
}
