package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestSmoke(t *testing.T) {
	d, err := OpenDir("/usr")
	require.NoError(t, err)
	defer d.Release()
	n := 0
	require.NoError(t, d.Entries(nil, func(name []byte, typ tree.Type, ino uint64) error {
		n++
		var st Stat
		require.NoError(t, d.Lstat(string(name), &st))
		require.Equal(t, st.Ino, ino)
		require.Equal(t, typ, st.Type)
		x, err := d.Xattrs(string(name), typ)
		require.NoError(t, err)
		require.Empty(t, x)
		return nil
	}))
	require.NotZero(t, n)
	var st Stat
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = d.Lstat("bin", &st) }))
}
