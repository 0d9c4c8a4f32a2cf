package view_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// holed is an open file whose bytes between two offsets are a hole. It counts the bytes that are read.
type holed struct {
	content  []byte
	from, to uint64
	read     int
	fail     error
}

func (h *holed) ReadAt(p []byte, off int64) (int, error) {
	if h.fail != nil {
		return 0, h.fail
	}
	n := copy(p, h.content[min(int(off), len(h.content)):])
	if h.read += n; n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *holed) Extents(from, to uint64, visit func(off, n uint64, hole bool) error) error {
	for off := from; off < to; {
		hole, end := off >= h.from && off < h.to, to
		if hole {
			end = min(end, h.to)
		} else if off < h.from {
			end = min(end, h.from)
		}
		if err := visit(off, end-off, hole); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// TestCompare: a file is equal if each chunk has its ID and each hole has zeros only, which are read where the file has
// no hole.
func TestCompare(t *testing.T) {
	keys := seal.Derive(seal.MasterKey{1})
	h, none := keys.Hasher(), stored{}
	const each = 70_000
	data := testkit.Noise(1, each)
	one := tree.Chunk{ID: h.ID(data), Len: each}
	content := append(append(append([]byte{}, data...), make([]byte, 2*each)...), data...)
	content = append(content, make([]byte, each)...)
	n := &tree.Node{Type: tree.File, Size: uint64(len(content)), Content: tree.Content{
		Chunks: []tree.Chunk{one, {Len: 2 * each}, one}, // the last hole is left out
	}}
	f := &holed{content: content, from: each, to: 2 * each}
	require.NoError(t, view.Compare(t.Context(), none.LoadBlob, h, n, f))
	require.Equal(t, len(content)-each, f.read, "all but the hole")
	for _, at := range []int{0, each - 1, 2*each + 1, 3*each - 1, 4*each - 1, len(content) - 1} {
		f.content = append([]byte{}, content...)
		f.content[at] ^= 1
		require.ErrorIs(t, view.Compare(t.Context(), none.LoadBlob, h, n, f), view.ErrDiffers, "%d", at)
	}
	for _, end := range []int{0, each, 4*each - 1, len(content) - 1} {
		f.content = content[:end]
		require.ErrorIs(t, view.Compare(t.Context(), none.LoadBlob, h, n, f), view.ErrDiffers, "%d", end)
	}
	inline := &tree.Node{Type: tree.File, Size: 5, Content: tree.Content{Inline: []byte("abc")}}
	for text, same := range map[string]bool{"abc\x00\x00": true, "abc\x00d": false, "abd\x00\x00": false, "abc": false} {
		err := view.Compare(t.Context(), none.LoadBlob, h, inline, &holed{content: []byte(text)})
		require.Equal(t, same, err == nil, text)
	}
	broken := errors.New("broken")
	require.ErrorIs(t, view.Compare(t.Context(), none.LoadBlob, h, n, &holed{fail: broken}), broken)
}
