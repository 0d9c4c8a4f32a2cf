package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

// What is not a regular file is neither opened nor changed: opening a pipe would block.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	require.NoError(t, unix.Mkfifo(pipe, 0o640))
	require.NoError(t, os.Symlink("pipe", link))
	for _, path := range []string{pipe, link, dir} {
		before, err := os.Stat(path)
		require.NoError(t, err)
		require.ErrorIs(t, optionfile.Regular(path), optionfile.ErrNotRegular)
		_, err = optionfile.ReadRegular(path)
		require.ErrorIs(t, err, optionfile.ErrNotRegular)
		_, err = Reserve(path)
		require.ErrorIs(t, err, optionfile.ErrNotRegular)
		_, err = (&optionfile.File{Path: path, New: []byte("x\n")}).SaveWithCopy()
		require.ErrorIs(t, err, optionfile.ErrNotRegular)
		after, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, before.Mode(), after.Mode(), path)
	}
}

// Only a file that Reserve has made is removed again.
func TestReserve(t *testing.T) {
	dir := t.TempDir()
	made, empty, full := filepath.Join(dir, "made"), filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	require.NoError(t, os.WriteFile(full, []byte("mine"), 0o644))
	_, err := Reserve(full)
	require.ErrorContains(t, err, "is not empty")
	for _, path := range []string{made, empty} {
		k, err := Reserve(path)
		require.NoError(t, err)
		k.Discard()
	}
	require.NoFileExists(t, made)
	require.FileExists(t, empty)
	for _, path := range []string{made, empty} {
		k, err := Reserve(path)
		require.NoError(t, err)
		require.NoError(t, k.Write("KEY"))
		k.Discard()
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "KEY\n", string(content))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	k, err := Reserve("")
	require.NoError(t, err)
	require.Nil(t, k)
	k.Discard()
}
