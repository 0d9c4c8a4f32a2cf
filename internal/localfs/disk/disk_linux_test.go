package disk

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
	var m Memory
	require.NoError(t, m.Close(), "none was needed")
	for range 2 {
		taken := 0
		for _, n := range []int{1, Unit - 1, Unit, Unit + 1, MostRead} {
			p := m.Take(n)
			require.Len(t, p, (n+Unit-1)/Unit*Unit)
			require.Equal(t, len(p), cap(p))
			require.Zero(t, uintptr(unsafe.Pointer(&p[0]))%Unit)
			p[0], p[len(p)-1] = 1, 1
			taken += len(p)
		}
		require.Nil(t, m.Take(Room-taken+1))
		require.Len(t, m.Take(Room-taken), Room-taken)
		require.Nil(t, m.Take(1))
		m.Reset()
	}
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
}

// A file system is asked once, and not by means of what is not known to be a file of it.
func TestSystemsAreAskedOnce(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	var s Systems
	asked := 0
	ask := func() error { asked++; return nil }
	require.False(t, s.Read(7, int(f.Fd()), func() error { return errors.New("replaced") }))
	can := s.Read(7, int(f.Fd()), ask)
	require.Equal(t, direct(int(f.Fd())), can)
	require.Equal(t, can, s.Read(7, -1, ask))
	require.Equal(t, 1, asked)

	s.Refused(7, unix.EIO)
	require.Equal(t, can, s.Read(7, -1, ask), "that says nothing of the file system")
	s.Refused(7, unix.EINVAL)
	require.False(t, s.Read(7, -1, ask))
	require.Equal(t, 1, asked)
	require.False(t, s.Read(8, -1, ask), "it cannot be asked")
	require.Equal(t, 2, asked)
}

func TestOnlyThoseThatSaySoReadDirectly(t *testing.T) {
	for _, path := range []string{"/proc/self/status", "/sys/kernel/notes"} {
		f, err := os.Open(path)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		require.False(t, direct(int(f.Fd())), path)
		require.ErrorIs(t, Direct(int(f.Fd()), true), unix.EINVAL, path)
	}
	require.False(t, direct(-1))
	require.ErrorIs(t, Direct(-1, true), unix.EBADF)
}

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, 10_000), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	if at, ok := Place(int(f.Fd()), 10_000); ok {
		require.Zero(t, at%512)
	}
	proc, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer proc.Close()
	_, ok := Place(int(proc.Fd()), 10)
	require.False(t, ok)
}
