package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMediumOfPaths(t *testing.T) {
	require.Equal(t, Unknown, NewFinder().Medium(Unknown))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Equal(t, Unknown, NewFinder().Medium(Unknown, filepath.Join(dir, "file", "below a file")),
		"no reason to give up")
	if info, err := NewFinder().Of("/dev/shm"); err != nil || info.Medium != Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	require.Equal(t, Memory, NewFinder().Medium(Unknown, "/dev/shm"))
	require.Equal(t, Memory, NewFinder().Medium(Unknown, "/dev/shm/not/made/yet"))
	require.Equal(t, Unknown, NewFinder().Medium(Unknown, "/dev/shm", "/proc"), "the slowest counts")
	require.Equal(t, HDD, NewFinder().Medium(HDD, "/dev/shm", "/proc"), "the user knows better")
}
