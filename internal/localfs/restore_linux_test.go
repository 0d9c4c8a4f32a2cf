package localfs

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestWriter(t *testing.T) {
	d, path := openTemp(t)
	w, err := d.CreateFile("f")
	require.NoError(t, err)
	info, err := os.Stat(path + "/f")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	_, err = w.WriteAt([]byte("hello"), 3)
	require.NoError(t, err)
	require.NoError(t, w.Truncate(300_000))
	require.NoError(t, w.Sync())
	require.NoError(t, w.Close())
	require.Equal(t, "\x00\x00\x00hello", readFile(t, path+"/f")[:8])
	require.ErrorIs(t, w.Close(), unix.EBADF)
	info, err = os.Stat(path + "/f")
	require.NoError(t, err)
	require.EqualValues(t, 300_000, info.Size())

	_, err = d.CreateFile("f")
	require.ErrorIs(t, err, os.ErrExist)
	require.NoError(t, d.Symlink("elsewhere", "link"))
	_, err = d.CreateFile("link")
	require.ErrorIs(t, err, os.ErrExist)
	require.NoFileExists(t, path+"/elsewhere")
}

func TestRenameRemove(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "content")
	require.NoError(t, d.Symlink("f", "s"))
	write(t, path+"/old", "old")
	require.NoError(t, d.Rename("f", "old"))
	require.Equal(t, "content", readFile(t, path+"/old"))
	require.NoError(t, d.Mkdir("dir", 0o700))
	require.Error(t, d.Remove("dir", false))
	require.Error(t, d.Remove("old", true))
	require.NoError(t, d.Remove("dir", true))
	require.NoError(t, d.Remove("s", false))
	require.Equal(t, []string{"old"}, listing(t, d, nil))
	require.ErrorIs(t, d.Remove("s", false), ErrVanished)
	require.ErrorIs(t, d.Mkdir("old", 0o700), os.ErrExist)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestMknod(t *testing.T) {
	d, _ := openTemp(t)
	for _, typ := range []tree.Type{0, tree.File, tree.Dir, tree.Symlink, 99} {
		require.ErrorIs(t, d.Mknod("x", typ, 0o600, 0), ErrNotKept)
	}
	require.ErrorIs(t, d.Mknod("fifo", tree.Fifo, 0o600, 0), nil)
	if os.Geteuid() != 0 {
		require.ErrorIs(t, d.Mknod("char", tree.CharDevice, 0o600, device(1, 3)), os.ErrPermission)
		return
	}
	for i, rdev := range []uint64{device(1, 3), device(259, 70_000), device(4095, 1<<20-1)} {
		name := fmt.Sprint(i)
		require.NoError(t, d.Mknod(name, tree.BlockDevice, 0o600, rdev))
		var st Stat
		require.NoError(t, d.Lstat(name, &st))
		require.Equal(t, tree.BlockDevice, st.Type)
		require.Equal(t, rdev, st.Rdev)
	}
}
