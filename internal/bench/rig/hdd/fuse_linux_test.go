package hdd

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The disk's file is opened by system calls: package os would have its poller ask for it, in a call during which the
// runtime cannot run the goroutine that has to answer.
func TestMountedDiskKeepsWhatIsWritten(t *testing.T) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and FUSE")
	} else {
		require.NoError(t, f.Close())
	}
	dir := t.TempDir()
	path, backing := filepath.Join(dir, "disk"), filepath.Join(dir, "sectors")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	const size = 3<<20 + 512
	quick := Model{Size: size, Revolution: time.Microsecond, Rate: 1e12}
	d, err := Mount(path, backing, quick)
	require.NoError(t, err)
	mounted := true
	t.Cleanup(func() {
		if mounted {
			_ = d.Unmount()
		}
	})
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, size, info.Size())

	want := make([]byte, size)
	_, err = rand.NewChaCha8([32]byte{1}).Read(want)
	require.NoError(t, err)
	f, err := unix.Open(path, unix.O_RDWR, 0)
	require.NoError(t, err)
	for at := 0; at < size; at += 300 << 10 {
		_, err = unix.Pwrite(f, want[at:min(size, at+300<<10)], int64(at))
		require.NoError(t, err)
	}
	require.NoError(t, unix.Fsync(f))
	got, err := os.ReadFile(backing)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "fsync has written it")
	_, err = unix.Pwrite(f, []byte("x"), size)
	require.Error(t, err, "behind the end of the disk")
	require.NoError(t, unix.Close(f))
	require.NoError(t, d.Unmount())

	d, err = Mount(path, backing, quick)
	require.NoError(t, err)
	f, err = unix.Open(path, unix.O_RDONLY, 0)
	require.NoError(t, err)
	got = make([]byte, size)
	for at := 0; at < size; {
		n, err := unix.Pread(f, got[at:], int64(at))
		require.NoError(t, err)
		require.Positive(t, n)
		at += n
	}
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, unix.Close(f))
	mounted = false
	require.NoError(t, d.Unmount())
}
