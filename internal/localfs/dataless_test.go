package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// No object is opened for its attributes if that has an effect.
func TestWhatIsOpenedForItsAttributes(t *testing.T) {
	for typ, want := range map[tree.Type]bool{
		tree.File: true, tree.Dir: true, tree.Symlink: true,
		tree.Fifo: false, tree.Socket: false, tree.CharDevice: false, tree.BlockDevice: false,
	} {
		require.Equal(t, want, mayOpen(&Stat{Type: typ}), "%v", typ)
		require.False(t, mayOpen(&Stat{Type: typ, Attr: AttrDataless}), "%v", typ)
	}
}
