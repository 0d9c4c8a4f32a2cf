package backup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestOrders(t *testing.T) {
	dir, err := localfs.OpenDir(t.TempDir())
	require.NoError(t, err)
	defer dir.Release()
	turning := func(turns bool) func(*iopolicy.Pass) bool { return func(*iopolicy.Pass) bool { return turns } }
	for _, c := range []struct {
		word                 string
		turns, still, nobody bool // whether files are read by extent where a disk turns, where not, and where nobody knows
	}{
		{"auto", true, false, false},
		{"inode", false, false, false},
		{"extent", true, true, true},
	} {
		p := &pipeline{}
		p.src.Reading.Order, err = ParseOrder(c.word)
		require.NoError(t, err)
		require.Equal(t, c.nobody, p.byExtent(dir), c.word)
		p.src.Turns = turning(true)
		require.Equal(t, c.turns, p.byExtent(dir), c.word)
		p.src.Turns = turning(false)
		require.Equal(t, c.still, p.byExtent(dir), c.word)
	}
	_, err = ParseOrder("size")
	require.ErrorContains(t, err, "choose auto, inode or extent")
}
