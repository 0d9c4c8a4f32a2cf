package view_test

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"

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
		f, err := view.NewFile(blobs, n)
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
