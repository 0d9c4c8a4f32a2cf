package sysinfo

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8192, 100_000} {
		path := filepath.Join(t.TempDir(), "file")
		want := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		require.NoError(t, os.WriteFile(path, want, 0o600))
		got, err := ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%d bytes", size)
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := ReadFile(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open "+dir)
	_, err = ReadFile(dir)
	require.ErrorContains(t, err, "read "+dir)
}
