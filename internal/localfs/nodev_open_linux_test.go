package localfs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// seen returns what a scan records about an entry.
func seen(t *testing.T, d *Dir, name string) Known {
	t.Helper()
	var st Stat
	require.NoError(t, d.Lstat(name, &st))
	return Known{Dev: st.Dev, Ino: st.Ino}
}

// noDevDirectory returns a directory and its path. Its known files are opened in a copy of the mount.
func noDevDirectory(t *testing.T) (*Dir, string) {
	t.Helper()
	d, path := openTemp(t)
	if !d.mayHoldDevices() {
		t.Skip("needs root and a mount with devices")
	}
	write(t, path+"/first", "1")
	for range 2 {
		require.Equal(t, "1", contentOf(t, d, "first", seen(t, d, "first")))
	}
	require.True(t, opened(&d.noDev))
	return d, path
}

func contentOf(t *testing.T, d *Dir, name string, known Known) string {
	t.Helper()
	b := NewBatch(false)
	f, err := b.Open(d, name, known)
	require.NoError(t, err)
	defer b.Done(f)
	p := make([]byte, f.Opened().Size+1)
	n, err := f.ReadWhole(p, f.Opened().Size)
	require.NoError(t, err)
	return string(p[:n])
}

// blindProc makes whatever is opened through /proc fail.
func blindProc(t *testing.T, h *host) {
	t.Helper()
	require.GreaterOrEqual(t, h.proc, 0)
	require.NoError(t, unix.Close(h.proc))
	fd, err := unix.Open(t.TempDir(), unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	h.proc = fd
}

// From the second file of a directory on, a known file is not opened through /proc.
func TestKnownFilesAreNotPinned(t *testing.T) {
	d, path := noDevDirectory(t)
	write(t, path+"/f", "content")
	known := seen(t, d, "f")
	blindProc(t, d.host)
	require.Equal(t, "content", contentOf(t, d, "f", known))
	_, err := d.OpenFile("f")
	require.ErrorIs(t, err, unix.ENOENT, "a file without a stat is pinned: the test is meaningful")
}

// Another object takes the name of a file between its stat and its open in the copy.
func TestKnownFileThatWasSwapped(t *testing.T) {
	needRoot(t)
	swaps := map[string]func(d *Dir) error{
		"symlink to a file": func(d *Dir) error { return d.Symlink("other", "f") },
		"dangling symlink":  func(d *Dir) error { return d.Symlink("nothing", "f") },
		"fifo":              func(d *Dir) error { return d.Mknod("f", tree.Fifo, 0o666, 0) },
		"socket":            func(d *Dir) error { return d.Mknod("f", tree.Socket, 0o666, 0) },
		"directory":         func(d *Dir) error { return d.Mkdir("f", 0o777) },
		"device":            func(d *Dir) error { return d.Mknod("f", tree.CharDevice, 0o666, device(1, 3)) },
		"block device":      func(d *Dir) error { return d.Mknod("f", tree.BlockDevice, 0o666, device(7, 250)) },
		"no driver":         func(d *Dir) error { return d.Mknod("f", tree.CharDevice, 0o666, device(245, 7)) },
	}
	for what, swap := range swaps {
		t.Run(what, func(t *testing.T) {
			d, path := noDevDirectory(t)
			write(t, path+"/other", "secret")
			write(t, path+"/f", "content")
			known := seen(t, d, "f")
			require.NoError(t, d.Remove("f", false))
			require.NoError(t, swap(d))
			before := len(descriptors(t))
			f, err := NewBatch(false).Open(d, "f", known)
			require.Nil(t, f)
			require.ErrorIs(t, err, ErrNotRegular)
			require.Len(t, descriptors(t), before)
			// Opening a device that has no driver gives an errno. Not seeing one is the proof that it was not opened.
			if strings.Contains(what, "driver") {
				var errno unix.Errno
				require.False(t, errors.As(err, &errno), "%v", err)
			}
		})
	}
}

func TestKnownFileThatBecameAnother(t *testing.T) {
	d, path := noDevDirectory(t)
	write(t, path+"/f", "old")
	known := seen(t, d, "f")
	write(t, path+"/new", "new")
	require.NoError(t, os.Rename(path+"/new", path+"/f"))
	require.Equal(t, "new", contentOf(t, d, "f", known))
	require.Equal(t, "new", contentOf(t, d, "f", Known{Dev: known.Dev + 1, Ino: seen(t, d, "f").Ino}))
	require.NoError(t, os.Remove(path+"/f"))
	_, err := NewBatch(false).Open(d, "f", known)
	require.ErrorIs(t, err, ErrVanished)
}

// On a file another one may be mounted, which the copy of the mount does not show.
func TestKnownFileThatIsMounted(t *testing.T) {
	d, path := noDevDirectory(t)
	for i, from := range []string{t.TempDir(), "/dev/shm"} {
		other, err := os.CreateTemp(from, "tidemark-mounted-")
		require.NoError(t, err)
		defer os.Remove(other.Name())
		_, err = other.WriteString("mounted")
		require.NoError(t, err)
		require.NoError(t, other.Close())
		name := fmt.Sprint("f", i)
		write(t, path+"/"+name, "hidden")
		hidden := seen(t, d, name)
		if err := unix.Mount(other.Name(), path+"/"+name, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no mounts here: %v", err)
		}
		defer func() { _ = unix.Unmount(path+"/"+name, unix.MNT_DETACH) }()
		require.Equal(t, "mounted", contentOf(t, d, name, seen(t, d, name)), from)
		require.Equal(t, "hidden", contentOf(t, d, name, hidden), "mounted since it was looked at")
	}
}

// After an error that only the copy returns, files are opened in the original directory.
func TestNoDevErrorFallsBack(t *testing.T) {
	d, path := noDevDirectory(t)
	write(t, path+"/over", "mounted")
	require.NoError(t, d.Mknod("f", tree.CharDevice, 0o666, device(245, 7)))
	if err := unix.Mount(path+"/over", path+"/f", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer func() { _ = unix.Unmount(path+"/f", unix.MNT_DETACH) }()
	require.Equal(t, "mounted", contentOf(t, d, "f", seen(t, d, "f")))
	require.False(t, opened(&d.noDev))
}

// What is opened a second time is closed with the first.
func TestWhatIsOpenedAgainIsClosed(t *testing.T) {
	needRoot(t)
	path := t.TempDir()
	before := len(descriptors(t))
	d, err := OpenDir(path)
	require.NoError(t, err)
	write(t, path+"/f", "content")
	for range 5 {
		require.Equal(t, "content", contentOf(t, d, "f", seen(t, d, "f")))
	}
	d.Release()
	require.LessOrEqual(t, len(descriptors(t)), before)
}

func TestKnownFilesOpenWithoutMemory(t *testing.T) {
	d, path := noDevDirectory(t)
	write(t, path+"/f", "x")
	known := seen(t, d, "f")
	b := NewBatch(false)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		f, err := b.Open(d, "f", known)
		if err != nil {
			t.Fatal(err)
		}
		b.Done(f)
	}), 0.0)
}
