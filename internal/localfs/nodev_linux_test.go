package localfs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// open opens a directory, and a second time, or skips the test where that is impossible.
func openNoDev(t *testing.T, m *noDevMounts, path string) (fd int, again *noDevDir) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	again, err = m.openCopy(fd)
	if err != nil && os.Geteuid() != 0 {
		t.Skipf("needs root: %v", err)
	}
	require.NoError(t, err)
	return fd, again
}

func TestFilesOpenAndDevicesDoNot(t *testing.T) {
	var m noDevMounts
	path := t.TempDir()
	require.NoError(t, os.WriteFile(path+"/f", []byte("content"), 0o600))
	fd, again := openNoDev(t, &m, path)
	defer again.close()
	nodes := map[string]uint64{"null": unix.Mkdev(1, 3), "without driver": unix.Mkdev(245, 7)}
	for name, number := range nodes {
		require.NoError(t, unix.Mknodat(fd, name, unix.S_IFCHR|0o666, int(number)))
	}
	require.NoError(t, unix.Mknodat(fd, "block", unix.S_IFBLK|0o666, int(unix.Mkdev(7, 250))))
	for _, name := range []string{"null", "without driver", "block"} {
		_, err := unix.Openat(again.fd, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		require.Equal(t, unix.EACCES, err, "%s: its driver would have said something else, or nothing", name)
	}
	var here, there unix.Stat_t
	require.NoError(t, unix.Fstatat(fd, "f", &here, 0))
	require.NoError(t, unix.Fstatat(again.fd, "f", &there, 0))
	require.Equal(t, [2]uint64{here.Dev, here.Ino}, [2]uint64{there.Dev, there.Ino})
	f, err := unix.Openat(again.fd, "f", unix.O_RDONLY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(f))
}

func TestDirectoriesOfAMountShareACopy(t *testing.T) {
	var m noDevMounts
	path := t.TempDir()
	require.NoError(t, os.MkdirAll(path+"/a/b", 0o700))
	before, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	_, below := openNoDev(t, &m, path+"/a/b")
	_, above := openNoDev(t, &m, path) // the copy is of what is below the first one
	require.Len(t, m.copies, 1)
	var st unix.Stat_t
	require.NoError(t, unix.Fstatat(above.fd, "a/b", &st, 0))
	seen, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.Equal(t, string(before), string(seen), "it is invisible")
	below.close()
	require.Len(t, m.copies, 1)
	above.close()
	require.Empty(t, m.copies)
}

// A copy must not keep a file system busy after its last directory is closed.
func TestNothingIsKeptInUse(t *testing.T) {
	var m noDevMounts
	path := t.TempDir()
	if err := unix.Mount("none", path, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	mounted := true
	defer func() {
		if mounted {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	}()
	_, out := openNoDev(t, &m, os.TempDir())
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	in, err := m.openCopy(fd)
	require.NoError(t, err)
	require.Len(t, m.copies, 2)
	require.Equal(t, unix.EBUSY, unix.Unmount(path, 0))
	in.close()
	require.Len(t, m.copies, 1)
	require.NoError(t, unix.Close(fd))
	require.NoError(t, unix.Unmount(path, 0))
	mounted = false
	out.close()
}

func TestWhatIsMountedElsewhereIsNotInTheCopy(t *testing.T) {
	var m noDevMounts
	path := t.TempDir()
	require.NoError(t, os.Mkdir(path+"/sub", 0o700))
	require.NoError(t, os.WriteFile(path+"/sub/below", nil, 0o600))
	_, again := openNoDev(t, &m, path)
	defer again.close()
	if err := unix.Mount("none", path+"/sub", "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer func() { _ = unix.Unmount(path+"/sub", unix.MNT_DETACH) }()
	var st unix.Stat_t
	require.NoError(t, unix.Fstatat(again.fd, "sub/below", &st, 0))
}

func TestWhereThereAreNoHandles(t *testing.T) {
	var m noDevMounts
	fd, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = m.openCopy(fd)
	require.ErrorIs(t, err, errNoCopy)
	require.Empty(t, m.copies)
	_, err = m.openCopy(-1)
	require.ErrorIs(t, err, unix.EBADF)
	require.False(t, m.denied.Load(), "that says nothing about other directories")
}

func TestASecondFileMakesItPay(t *testing.T) {
	var m noDevMounts
	var a noDevOpener
	path := t.TempDir()
	require.NoError(t, os.WriteFile(path+"/f", nil, 0o600))
	fd, probe := openNoDev(t, &m, path)
	probe.close()
	_, err := a.openFile(&m, fd, "f", 0)
	require.ErrorIs(t, err, errNoCopy)
	require.False(t, opened(&a))
	for range 3 {
		f, err := a.openFile(&m, fd, "f", 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(f))
		require.True(t, opened(&a))
	}
	_, err = a.openFile(&m, fd, strings.Repeat("n", 256), 0)
	require.ErrorIs(t, err, errNoCopy, "some file systems have names of that length")
	_, err = a.openFile(&m, fd, "gone", 0)
	require.Equal(t, unix.ENOENT, err)
	a.avoid()
	require.False(t, opened(&a))
	_, err = a.openFile(&m, fd, "f", 0)
	require.ErrorIs(t, err, errNoCopy)
	a.close()
	a.close()
	require.Empty(t, m.copies)
}

func TestItIsNotTriedAgainWhereItFailed(t *testing.T) {
	var m noDevMounts
	var a noDevOpener
	fd, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	for range 4 {
		_, err := a.openFile(&m, fd, "status", 0)
		require.ErrorIs(t, err, errNoCopy)
	}
	require.Less(t, a.files.Load(), int32(0))
}

// opened reports whether the copy is in use.
func opened(a *noDevOpener) bool { return a.dir.Load() != nil && a.files.Load() >= 0 }
