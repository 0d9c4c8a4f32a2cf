package index

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMemoryFileIsAFile compares with a slice, over the ends of pieces.
func TestAMemoryFileIsAFile(t *testing.T) {
	f, want := new(memoryFile), []byte(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p := bytes.Repeat([]byte{byte(rng.IntN(256))}, 1+rng.IntN(memoryPiece/4))
		off := int64(rng.IntN(len(want) + 1))
		n, err := f.WriteAt(p, off)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
		want = append(want, make([]byte, max(0, int(off)+len(p)-len(want)))...)
		copy(want[off:], p)
		got := make([]byte, 1+rng.IntN(2*memoryPiece))
		off = int64(rng.IntN(len(want) + 1))
		n, err = f.ReadAt(got, off)
		require.Equal(t, min(len(got), len(want)-int(off)), n)
		require.Equal(t, n < len(got), err == io.EOF)
		require.True(t, bytes.Equal(want[off:][:n], got[:n]))
	}
	_, err := f.WriteAt([]byte{1}, memoryFileMax)
	require.ErrorIs(t, err, ErrNoFolder)
	require.NoError(t, f.Close())
}
