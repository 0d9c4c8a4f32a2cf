package localfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// opensAfter returns what opens the entry name for reading, after a swap.
func opensAfter(d *Dir, name string, swap func()) func() (int, error) {
	return func() (int, error) {
		swap()
		return openat(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	}
}

// What may not be opened is not; what cannot be opened is reached by its name; another object is refused.
func TestEntriesHeldByNameAreTheSame(t *testing.T) {
	d, path := openTemp(t)
	write(t, filepath.Join(path, "file"), "content")
	require.NoError(t, d.Mkdir("dir", 0o700))
	require.NoError(t, d.Symlink("file", "link"))
	require.NoError(t, d.Mknod("fifo", tree.Fifo, 0o600, 0))
	require.NoError(t, d.Mknod("socket", tree.Socket, 0o600, 0))
	for _, name := range []string{"fifo", "socket"} {
		e := &Entry{dir: d, name: name}
		require.NoError(t, e.pinByName(func() (int, error) {
			t.Errorf("%s is opened", name)
			return -1, unix.ENXIO
		}))
		require.Equal(t, []any{name, false}, []any{e.object.name, e.owned})
	}
	for _, name := range []string{"file", "dir"} {
		e := &Entry{dir: d, name: name}
		require.NoError(t, e.pinByName(opensAfter(d, name, func() {})), name)
		require.Empty(t, e.object.name, "%s is held by a descriptor", name)
		require.Equal(t, name == "file", e.file != nil)
		e.Close()
		require.ErrorIs(t, unix.Fstat(e.object.fd, &unix.Stat_t{}), unix.EBADF, "%s is closed", name)
	}
	for _, refused := range []error{unix.EACCES, unix.EPERM, unix.EDEADLK, unix.EMFILE} {
		e := &Entry{dir: d, name: "link"}
		require.NoError(t, e.pinByName(func() (int, error) { return -1, refused }), "%v", refused)
		require.Equal(t, []any{"link", tree.Symlink, false}, []any{e.object.name, e.st.Type, e.owned})
		e.Close()
	}
	gone := &Entry{dir: d, name: "nothing"}
	require.ErrorIs(t, gone.pinByName(opensAfter(d, "nothing", func() {})), unix.ENOENT)

	swapped := &Entry{dir: d, name: "file"}
	fd := -1
	err := swapped.pinByName(func() (_ int, err error) {
		replace(t, path, "file")
		fd, err = opensAfter(d, "file", func() {})()
		return fd, err
	})
	require.ErrorIs(t, err, ErrReplaced)
	require.Nil(t, swapped.file)
	require.ErrorIs(t, unix.Fstat(fd, &unix.Stat_t{}), unix.EBADF, "it is closed")
}

// replace gives a name to another file.
func replace(t *testing.T, path, name string) {
	t.Helper()
	write(t, filepath.Join(path, "other"), "secret")
	require.NoError(t, os.Rename(filepath.Join(path, "other"), filepath.Join(path, name)))
}

// A hard link by name, or the target of a link, is that of the object that was looked at, or none.
func TestCallsByNameCompareTheObject(t *testing.T) {
	d, path := openTemp(t)
	write(t, filepath.Join(path, "file"), "content")
	e := &Entry{dir: d, name: "file"}
	require.NoError(t, e.dir.object("file").stat(&e.st))
	require.NoError(t, e.linkByName(d.fd, "second"))
	require.ErrorIs(t, e.linkByName(d.fd, "second"), fs.ErrExist)
	require.FileExists(t, filepath.Join(path, "second"), "it was there before")
	replace(t, path, "file")
	require.ErrorIs(t, e.linkByName(d.fd, "third"), ErrReplaced)
	require.NoFileExists(t, filepath.Join(path, "third"))

	require.NoError(t, d.Symlink("a", "link"))
	l := &Entry{dir: d, name: "link"}
	require.NoError(t, d.Lstat("link", &l.st))
	target, err := l.readlinkByName()
	require.NoError(t, err)
	require.Equal(t, "a", target)
	require.NoError(t, d.Symlink("b", "other"))
	require.NoError(t, d.Rename("other", "link"))
	_, err = l.readlinkByName()
	require.ErrorIs(t, err, ErrReplaced)
}

// Fifos and sockets are made in the working directory, and a name that is taken is EEXIST for all types.
func TestSpecialFilesOfMacOS(t *testing.T) {
	d, path := openTemp(t)
	t.Chdir(path)
	for name, want := range map[string]struct {
		mode uint32
		typ  tree.Type
	}{"fifo": {unix.S_IFIFO | 0o640, tree.Fifo}, "socket": {unix.S_IFSOCK | 0o640, tree.Socket}} {
		require.NoError(t, makeNode(name, want.mode, 0))
		var st Stat
		require.NoError(t, d.Lstat(name, &st))
		require.Equal(t, want.typ, st.Type, name)
		err := makeNode(name, want.mode, 0)
		require.ErrorIs(t, err, fs.ErrExist, name)
		require.Equal(t, name == "socket", errors.Is(err, unix.EADDRINUSE), "mknod of macOS makes no sockets")
	}
	require.ErrorIs(t, makeNode("nowhere/socket", unix.S_IFSOCK, 0), fs.ErrNotExist)
	if os.Geteuid() == 0 {
		require.NoError(t, makeNode("null", unix.S_IFCHR|0o600, unix.Mkdev(1, 3)))
		var st Stat
		require.NoError(t, d.Lstat("null", &st))
		require.Equal(t, []any{tree.CharDevice, device(1, 3)}, []any{st.Type, st.Rdev})
	}
}
