package localfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMemoryIsAlignedAndBounded(t *testing.T) {
	var m directBuffer
	require.NoError(t, m.close(), "none was needed")
	for range 2 {
		taken := 0
		for _, n := range []int{1, directUnit - 1, directUnit, directUnit + 1, maxDirectRead} {
			p := m.take(n)
			require.Len(t, p, (n+directUnit-1)/directUnit*directUnit)
			require.Equal(t, len(p), cap(p))
			require.Zero(t, uintptr(unsafe.Pointer(&p[0]))%directUnit)
			p[0], p[len(p)-1] = 1, 1
			taken += len(p)
		}
		require.Nil(t, m.take(directBufferSize-taken+1))
		require.Len(t, m.take(directBufferSize-taken), directBufferSize-taken)
		require.Nil(t, m.take(1))
		m.reset()
	}
	require.NoError(t, m.close())
	require.NoError(t, m.close())
}

// A file system is probed once, and only through a file known to be on it.
func TestSystemsAreAskedOnce(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	var s directSupport
	asked := 0
	ask := func() error { asked++; return nil }
	require.False(t, s.supports(7, int(f.Fd()), func() error { return errors.New("replaced") }))
	can := s.supports(7, int(f.Fd()), ask)
	require.Equal(t, supportsDirect(int(f.Fd())), can)
	require.Equal(t, can, s.supports(7, -1, ask))
	require.Equal(t, 1, asked)

	s.refused(7, unix.EIO)
	require.Equal(t, can, s.supports(7, -1, ask), "that says nothing of the file system")
	s.refused(7, unix.EINVAL)
	require.False(t, s.supports(7, -1, ask))
	require.Equal(t, 1, asked)
	require.False(t, s.supports(8, -1, ask), "it cannot be asked")
	require.Equal(t, 2, asked)
}

func TestOnlyThoseThatSaySoReadDirectly(t *testing.T) {
	for _, path := range []string{"/proc/self/status", "/sys/kernel/notes"} {
		f, err := os.Open(path)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		require.False(t, supportsDirect(int(f.Fd())), path)
		require.ErrorIs(t, setDirectFlag(int(f.Fd()), true), unix.EINVAL, path)
	}
	require.False(t, supportsDirect(-1))
	require.ErrorIs(t, setDirectFlag(-1, true), unix.EBADF)
}

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, 10_000), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	if at, ok := firstExtent(int(f.Fd()), 10_000); ok {
		require.Zero(t, at%512)
	}
	proc, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer proc.Close()
	_, ok := firstExtent(int(proc.Fd()), 10)
	require.False(t, ok)
}
