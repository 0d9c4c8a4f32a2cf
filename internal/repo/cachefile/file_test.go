package cachefile_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
)

// TestLock: of two processes one gets the lock, and the other one when that has ended.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	lock := func() *os.File {
		file, err := cachefile.Lock(path, 10*time.Millisecond, localfs.IOContext{})
		require.NoError(t, err)
		return file
	}
	first := lock()
	require.NotNil(t, first)
	require.Nil(t, lock())
	require.NoError(t, first.Close())
	second := lock()
	require.NotNil(t, second)
	require.NoError(t, second.Close())
	_, err := cachefile.Lock(filepath.Join(path, "in a file"), time.Second, localfs.IOContext{})
	require.Error(t, err)
}

// A file that is complete is read by several at once, and not while another process removes it.
func TestPlainFilesAreRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	f, err := cachefile.Create(dir, "made-", localfs.IOContext{})
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("content"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	for range 2 {
		r, err := cachefile.OpenRead(f.Path(), localfs.IOContext{})
		require.NoError(t, err)
		defer func() { require.NoError(t, r.Close()) }()
		require.True(t, r.Has(f.Path()))
		require.False(t, r.Has(dir))
		require.EqualValues(t, 10, r.Size())
		got := make([]byte, 7)
		_, err = r.ReadAt(got, 3)
		require.NoError(t, err)
		require.Equal(t, "content", string(got))
		_, err = r.ReadAt(got, 4)
		require.ErrorIs(t, err, io.EOF)
	}
	path := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	remover, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(remover.Fd()), unix.LOCK_EX))
	_, err = cachefile.OpenRead(path, localfs.IOContext{})
	require.ErrorIs(t, err, cachefile.ErrBusy)
	require.NoError(t, remover.Close())
	_, err = cachefile.OpenRead(dir, localfs.IOContext{})
	require.ErrorIs(t, err, cachefile.ErrDamaged)
	_, err = cachefile.OpenRead(filepath.Join(dir, "none"), localfs.IOContext{})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.FileExists(t, f.Path())
	require.NoError(t, f.Close())
}
