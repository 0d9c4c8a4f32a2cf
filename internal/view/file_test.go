package view_test

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// stored are blobs by their ID.
type stored map[format.ID][]byte

func (s stored) LoadBlob(_ context.Context, id format.ID) ([]byte, error) { return s[id], nil }

func (s stored) put(blob []byte) (format.ID, error) {
	id := format.ID(sha256.Sum256(blob))
	s[id] = slices.Clone(blob) // a builder uses its buffer again
	return id, nil
}

// TestListPagesThatContradictOneAnother: a page that holds fewer or more bytes than its branch says is damage, no hole.
func TestListPagesThatContradictOneAnother(t *testing.T) {
	blobs := stored{}
	b := tree.NewContentBuilder(blobs.put)
	const chunks, each = 20_000, 64
	content := testkit.Noise(1, chunks*each)
	for i := range chunks {
		id, err := blobs.put(content[i*each : (i+1)*each])
		require.NoError(t, err)
		require.NoError(t, b.Add(tree.Chunk{ID: id, Len: each}))
	}
	whole, err := b.Finish()
	require.NoError(t, err)
	n := &tree.Node{Type: tree.File, Size: chunks * each, Content: whole}
	read := func(at uint64) error {
		f, err := view.NewFile(blobs.LoadBlob, n)
		require.NoError(t, err)
		defer f.Close()
		p := make([]byte, 3*each)
		if _, err = f.ReadAt(t.Context(), p, at); err == nil {
			require.Equal(t, content[at:at+3*each], p)
		}
		return err
	}
	root, err := tree.DecodeListPage(blobs[whole.List])
	require.NoError(t, err)
	require.Greater(t, len(root.Children), 2)
	middle := root.Children[0].Bytes + root.Children[1].Bytes/2
	for _, at := range []uint64{0, middle, (chunks - 3) * each} {
		require.NoError(t, read(at))
	}
	right := blobs[root.Children[1].ID]
	tried := 0
	for _, wrong := range []int{0, 2} {
		other := root.Children[wrong]
		if other.Bytes == root.Children[1].Bytes {
			continue // the pages could change places unnoticed here; their IDs bind them
		}
		blobs[root.Children[1].ID] = blobs[other.ID]
		require.ErrorIs(t, read(middle), format.ErrCorrupt)
		blobs[root.Children[1].ID] = right
		tried++
	}
	require.NotZero(t, tried)
	blobs[root.Children[1].ID] = blobs[whole.List]
	require.ErrorIs(t, read(middle), format.ErrCorrupt, "a page of another level")
	blobs[root.Children[1].ID] = right
	require.NoError(t, read(middle))
}

// remote delivers each blob after the latency of a store.
type remote struct {
	stored
	loads atomic.Int64
}

func (r *remote) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	r.loads.Add(1)
	select {
	case <-time.After(latency):
		return r.stored.LoadBlob(ctx, id)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

const latency = 20 * time.Millisecond

// TestReadingInOrderHidesTheLatency: chunks are loaded ahead, several at once and each once, but only where reads go on
// in order.
func TestReadingInOrderHidesTheLatency(t *testing.T) {
	const chunks, each = 64, 1 << 20
	blobs := stored{}
	b := tree.NewContentBuilder(blobs.put)
	for i := range chunks {
		id, err := blobs.put(testkit.Noise(uint64(i), each))
		require.NoError(t, err)
		require.NoError(t, b.Add(tree.Chunk{ID: id, Len: each}))
	}
	content, err := b.Finish()
	require.NoError(t, err)
	read := func(offset func(i uint64) uint64) (took time.Duration, loads int64) {
		synctest.Test(t, func(t *testing.T) {
			from := &remote{stored: blobs}
			n := &tree.Node{Type: tree.File, Size: chunks * each, Content: content}
			f, err := view.NewFile(view.Recent(from.LoadBlob), n)
			require.NoError(t, err)
			begin := time.Now()
			for i := range uint64(chunks) * 8 {
				n, err := f.ReadAt(t.Context(), make([]byte, each/8), offset(i))
				require.NoError(t, err)
				require.Equal(t, each/8, n)
			}
			took = time.Since(begin)
			f.Close()
			loads = from.loads.Load()
		})
		return took, loads
	}
	took, loads := read(func(i uint64) uint64 { return i * each / 8 })
	require.LessOrEqual(t, took, chunks*latency/2)
	require.EqualValues(t, chunks+1, loads, "each chunk and the page of their list once")
	_, loads = read(func(i uint64) uint64 { return i * 13 % chunks * each })
	require.LessOrEqual(t, loads, int64(chunks*8+1), "nothing is loaded ahead of reads at random")
}
