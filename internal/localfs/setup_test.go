package localfs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// openTemp returns a fresh directory and its path.
func openTemp(t testing.TB) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	return openAt(t, path), path
}

func openAt(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func write(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: devices, owners, trusted attributes")
	}
}

// owned is a node of ours without anything special.
func owned(name string, typ tree.Type, mode uint32) *tree.Node {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return &tree.Node{Name: name, Type: typ, Mode: mode, UID: uid, GID: gid, ModTime: tree.Time{Sec: 5}}
}

// nodeOf reads everything that is kept of an entry but its content.
func nodeOf(t *testing.T, d *Dir, name string) *tree.Node {
	t.Helper()
	var st Stat
	require.NoError(t, d.Lstat(name, &st))
	xattrs, err := d.Xattrs(name, st.Type)
	require.NoError(t, err)
	flags, err := d.Flags(name, st.Type)
	require.NoError(t, err)
	n := &tree.Node{
		Name: name, Type: st.Type, Mode: st.Mode, UID: st.UID, GID: st.GID,
		ModTime: st.Mtime, Access: &st.Atime, Device: st.Rdev, Flags: flags, Xattrs: xattrs, Born: bornOf(&st),
	}
	if st.Type == tree.Symlink {
		n.Target, err = d.Readlink(name)
		require.NoError(t, err)
	}
	return n
}

// openWriter opens an existing file for writing.
func openWriter(d *Dir, name string) (*Writer, error) {
	fd, err := openat(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return d.newWriter(fd), nil
}
