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
		b, err := NewBuilder(k, kind, nil)
		require.NoError(t, err)
		require.NoError(t, b.Append(&Payload{Codec: Stored, Raw: 1, Data: []byte("a"),
			Blobs: []Blob{{ID: k.Hasher().ID([]byte("a")), Len: 1}}}))
		data, _, err := b.Finish()
		require.NoError(t, err)
		id, sum := ID(data, kind), seal.FileID(data)
		require.Equal(t, sum[:format.IDSize-1], id[:format.IDSize-1])
		require.Equal(t, kind, KindOf(id))
		require.True(t, Names(id, sum))
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
		for bit := range 8*format.IDSize - 1 {
			other := id
			other[bit/8] ^= 0x80 >> (bit % 8)
			require.False(t, Names(other, sum), "bit %d", bit)
		}
	}
}
