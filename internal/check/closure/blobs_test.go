package closure

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/numset"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

func emptyBlobs(t testing.TB) *Blobs {
	t.Helper()
	p := chunker.DefaultParams()
	r, _, err := repo.Init(t.Context(), mem.New(), repo.InitOptions{
		Secrets: []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("x")}},
		Params:  keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1},
		Chunker: config.Chunker{Algorithm: 1, Min: p.Min, Avg: p.Avg, Max: p.Max}, Open: repo.OpenOptions{NoCache: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	b, err := NewBlobs(r, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// blobID is the n-th of IDs that spread evenly.
func blobID(n int) (id format.ID) {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rng.Uint64())
	}
	return id
}

// packOf is a pack of one frame, whose blobs are those from first on.
func packOf(first, n int) index.Pack {
	frame := pack.Frame{Offset: pack.HeaderSize, Sealed: 1000}
	for i := range n {
		frame.Blobs = append(frame.Blobs, pack.Blob{ID: blobID(first + i), Len: 10})
	}
	return index.Pack{ID: blobID(-1 - first), Size: 5000, Table: pack.Table{Kind: pack.Trees, Frames: []pack.Frame{frame}}}
}

// TestPlacesOfAllKinds: what a segment names counts before what is in other packs, and that before what is gone; of all of
// them together each blob has a number of its own.
func TestPlacesOfAllKinds(t *testing.T) {
	b := emptyBlobs(t)
	require.NoError(t, b.AddLost([]index.Pack{packOf(0, 40)}))
	require.NoError(t, b.AddStrays([]index.Pack{packOf(10, 20)}))
	require.NoError(t, b.Add([]index.Pack{packOf(0, 10), packOf(15, 5)}))
	require.NoError(t, b.AddLost(nil))
	ids := make([]format.ID, 50)
	for i := range ids {
		ids[i] = blobID(i)
	}
	var q query
	places, err := b.locate(&q, ids)
	require.NoError(t, err)
	seen := numset.New(b.total)
	for i := range places {
		at := &places[i]
		want := b.named
		switch {
		case i >= 40:
			require.True(t, at.lost())
			place, err := at.place()
			require.NoError(t, err)
			require.Nil(t, place)
			continue
		case i >= 30:
			want = b.gone
		case i >= 10 && (i < 15 || i >= 20):
			want = b.strays
		}
		require.Same(t, want, at.in, "blob %d", i)
		require.Equal(t, want == b.strays, at.stray())
		require.True(t, seen.Add(at.number()), "blob %d has the number of another", i)
	}
}

// TestMemoryOfAFolder: that a folder was met is a bit, and a tenth of a byte leads to its place. Looking it up takes
// no memory of its own.
func TestMemoryOfAFolder(t *testing.T) {
	const packs, folders = 100, 2000
	b := emptyBlobs(t)
	before := heap()
	for i := range packs {
		require.NoError(t, b.Add([]index.Pack{packOf(i*folders, folders)}))
	}
	ids := []format.ID{blobID(1), blobID(7000), blobID(90_000)}
	var q query
	seen := numset.New(b.total)
	look := func() {
		places, err := b.locate(&q, ids)
		if err != nil || places[0].lost() || places[1].lost() || places[2].lost() {
			panic("a blob is not found")
		}
		for i := range places {
			seen.Add(places[i].number())
		}
	}
	look()
	taken := float64(heap()-before) / (packs * folders)
	t.Logf("%.2f bytes in memory for each of %d folders", taken, b.total)
	require.Less(t, taken, 0.5)
	// With the race detector pools lose some of what they are given.
	require.Less(t, testing.AllocsPerRun(100, look), 2.0)
	runtime.KeepAlive(b)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
