package pack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func TestNames(t *testing.T) {
	k := testKeys(t)
	for _, kind := range []Kind{Data, Trees} {
		b := NewBuilder(k, kind, nil)
		require.NoError(t, b.Append(&Payload{Codec: Stored, Raw: 1, Data: []byte("a"),
			Blobs: []Blob{{ID: k.Hasher().ID([]byte("a")), Len: 1}}}))
		data, _, err := b.Finish()
		require.NoError(t, err)
		id, sum := ID(data), seal.FileID(data)
		require.Equal(t, sum[:format.IDSize-1], id[:format.IDSize-1])
		require.Equal(t, kind, KindOf(id))
		pieces := NewSum()
		for i := range data {
			_, _ = pieces.Write(data[i : i+1])
		}
		require.Equal(t, id, pieces.ID())
		require.Equal(t, sum, pieces.File())
		_, err = OpenTable(k, id, int64(len(data)), readerAt(data))
		require.NoError(t, err)
		_, err = Rebuild(k, id, data)
		require.NoError(t, err)

		other := id
		other[format.IDSize-1] ^= 1
		require.NotEqual(t, kind, KindOf(other))
		_, err = OpenTable(k, other, int64(len(data)), readerAt(data))
		require.ErrorIs(t, err, format.ErrCorrupt)
		_, err = Rebuild(k, other, data)
		require.ErrorIs(t, err, format.ErrCorrupt)
		for at := range data { // the kind in the header is part of the hash and of the last bit
			data[at] ^= 3
			require.NotEqual(t, id, ID(data), "byte %d", at)
			data[at] ^= 3
		}
	}
}
