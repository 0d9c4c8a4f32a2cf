package read

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
	medium := func(rotational bool) func(*iopolicy.Pass) bool {
		return func(*iopolicy.Pass) bool { return rotational }
	}
	for _, c := range []struct {
		word                       string
		rotational, flash, unknown bool // whether files are read by extent on such a device
	}{
		{"auto", true, false, false},
		{"inode", false, false, false},
		{"extent", true, true, true},
	} {
		s := &Stage{}
		s.Options.Order, err = ParseOrder(c.word)
		require.NoError(t, err)
		require.Equal(t, c.unknown, s.byExtent(dir), c.word)
		s.Rotational = medium(true)
		require.Equal(t, c.rotational, s.byExtent(dir), c.word)
		s.Rotational = medium(false)
		require.Equal(t, c.flash, s.byExtent(dir), c.word)
	}
	_, err = ParseOrder("size")
	require.ErrorContains(t, err, "choose auto, inode or extent")
}
