package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/device"
)

func TestMedium(t *testing.T) {
	require.Equal(t, device.Unknown, medium("auto"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Equal(t, device.Unknown, medium("auto", filepath.Join(dir, "file", "below a file")), "no reason to give up")
	if info, err := device.Of("/dev/shm"); err != nil || info.Medium != device.Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	require.Equal(t, device.Memory, medium("auto", "/dev/shm"))
	require.Equal(t, device.Memory, medium("auto", "/dev/shm/not/made/yet"))
	require.Equal(t, device.Unknown, medium("auto", "/dev/shm", "/proc"), "the slowest counts")
	require.Equal(t, device.HDD, medium("hdd", "/dev/shm", "/proc"), "the user knows better")
}

func TestMoreRunsThanThereAreProcessors(t *testing.T) {
	defer runtime.SetDefaultGOMAXPROCS()
	runtime.SetDefaultGOMAXPROCS()
	usual := runtime.GOMAXPROCS(0)
	a := &app{Process: Process{Env: func(string) (string, bool) { return "", false }}}
	for range 2 {
		a.overlap(12)
		require.Equal(t, usual+6, runtime.GOMAXPROCS(0), "a second run adds nothing")
	}
	runtime.GOMAXPROCS(3)
	a.Env = func(name string) (string, bool) { return "3", name == "GOMAXPROCS" }
	a.overlap(12)
	require.Equal(t, 3, runtime.GOMAXPROCS(0), "the user knows better")
}
