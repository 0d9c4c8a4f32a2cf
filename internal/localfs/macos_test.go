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

// A birth time that the file system does not have is unknown; one before 1970 is known.
func TestZeroIsNoBirthTimeOnMacOS(t *testing.T) {
	require.Equal(t, tree.Time{Sec: UnknownTime}, birthOf(0, 0))
	require.Equal(t, tree.Time{Nsec: 1}, birthOf(0, 1))
	require.Equal(t, tree.Time{Sec: -1}, birthOf(-1, 0))
}
