package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

func TestMedium(t *testing.T) {
	require.Equal(t, device.Unknown, medium(device.NewFinder(), "auto"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Equal(t, device.Unknown, medium(device.NewFinder(), "auto", filepath.Join(dir, "file", "below a file")),
		"no reason to give up")
	if info, err := device.Of("/dev/shm"); err != nil || info.Medium != device.Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	require.Equal(t, device.Memory, medium(device.NewFinder(), "auto", "/dev/shm"))
	require.Equal(t, device.Memory, medium(device.NewFinder(), "auto", "/dev/shm/not/made/yet"))
	require.Equal(t, device.Unknown, medium(device.NewFinder(), "auto", "/dev/shm", "/proc"), "the slowest counts")
	require.Equal(t, device.HDD, medium(device.NewFinder(), "hdd", "/dev/shm", "/proc"), "the user knows better")
}
