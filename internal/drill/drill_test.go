package drill

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestCompare: bytes that differ although size and times are those of the snapshot are a failure; other times are none.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	restored, live := filepath.Join(dir, "restored"), filepath.Join(dir, "live")
	require.NoError(t, os.WriteFile(restored, []byte("as it was"), 0o600))
	require.NoError(t, os.WriteFile(live, []byte("as it iS!"), 0o600))
	f, err := open(t.Context(), nil, live)
	require.NoError(t, err)
	st := f.Opened()
	n := &tree.Node{Type: tree.File, Size: st.Size, ModTime: st.Mtime, Changed: st.Ctime, Inode: st.Ino}
	require.NoError(t, f.Close())
	_, err = compare(t.Context(), localfs.Gates(nil), restored, live, n)
	require.ErrorIs(t, err, errLive)
	for _, change := range []func(*tree.Node){
		func(n *tree.Node) { n.ModTime.Nsec ^= 1 }, func(n *tree.Node) { n.Changed.Nsec ^= 1 },
		func(n *tree.Node) { n.Size++ },
		func(n *tree.Node) { n.Inode++ },
	} {
		other := *n
		change(&other)
		same, err := compare(t.Context(), nil, restored, live, &other)
		require.NoError(t, err)
		require.False(t, same)
	}
	_, err = compare(t.Context(), nil, restored, filepath.Join(dir, "gone"), n)
	require.Error(t, err)
	require.NotErrorIs(t, err, errLive)
}
