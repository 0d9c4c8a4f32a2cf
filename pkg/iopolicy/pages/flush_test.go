package pages

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// File systems of macOS that lack a full flush get a plain one, and folders none where they have no flush at all. An
// error of the device is never taken for a missing call.
func TestFlushesFallBack(t *testing.T) {
	for _, c := range []struct {
		name        string
		full, plain error
		folder      bool
		want        Promise
		err         error
	}{
		{"APFS", nil, syscall.EIO, false, Durable, nil},
		{"exFAT", syscall.ENOTTY, nil, false, Submitted, nil},
		{"macFUSE", syscall.EINVAL, nil, false, Submitted, nil},
		{"SMB", syscall.ENOTSUP, nil, false, Submitted, nil},
		{"folder on SMB", syscall.ENOTSUP, syscall.ENOTSUP, true, Nothing, nil},
		{"folder on macFUSE", syscall.EINVAL, syscall.EINVAL, true, Nothing, nil},
		{"a file that cannot be flushed", syscall.ENOTTY, syscall.EINVAL, false, Submitted, syscall.EINVAL},
		{"a broken disk", syscall.EIO, nil, false, Durable, syscall.EIO},
		{"a broken disk below a folder", syscall.EIO, nil, true, Durable, syscall.EIO},
		{"a broken disk with exFAT", syscall.ENOTTY, syscall.EIO, true, Submitted, syscall.EIO},
		{"a full disk", syscall.ENOSPC, nil, false, Durable, syscall.ENOSPC},
	} {
		got, err := flush(interrupted(c.full), interrupted(c.plain), c.folder)
		require.Equal(t, c.err, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
}

// interrupted is a call that a signal interrupts twice.
func interrupted(result error) func() error {
	calls := 0
	return func() error {
		if calls++; calls < 3 {
			return syscall.EINTR
		}
		return result
	}
}

func TestFilesAndFoldersOfThisSystemAreFlushed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	for path, folder := range map[string]bool{dir: true, filepath.Join(dir, "f"): false} {
		f, err := os.Open(path)
		require.NoError(t, err)
		p, err := Flush(int(f.Fd()), folder)
		require.NoError(t, err)
		require.Equal(t, Durable, p)
		require.NoError(t, Sync(f, folder))
		require.NoError(t, f.Close())
		require.Error(t, Sync(f, folder))
	}
}
