package caches_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
	"github.com/tidemark-backup/tidemark/internal/repo/writerlock"
)

const (
	one = "00112233445566778899aabbccddeeff"
	two = "ffeeddccbbaa99887766554433221100"
)

// made makes the cache folder of a repository with a cache file, unused for some days.
func made(t *testing.T, dir, id string, days int) (folder string) {
	t.Helper()
	folder = filepath.Join(dir, id)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "trees"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "dirs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "dirs", "state"), make([]byte, 3000), 0o600))
	aged(t, folder, days)
	return folder
}

func aged(t *testing.T, folder string, days int) {
	t.Helper()
	at := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chtimes(path, at, at)
		}
		return err
	}))
}

func list(t *testing.T, dir string) []caches.Cache {
	t.Helper()
	all, err := caches.List(dir)
	require.NoError(t, err)
	return all
}

func TestList(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	require.Empty(t, list(t, dir))
	made(t, dir, one, 40)
	folder := made(t, dir, two, 10)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "media.json"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "notes"), 0o700))
	require.NoError(t, os.Symlink(folder, filepath.Join(dir, one[1:]+"0")))
	all := list(t, dir)
	require.Len(t, all, 2, "other files and links are left alone")
	require.Equal(t, []string{two, one}, []string{all[0].Repository, all[1].Repository}, "the one used last first")
	require.Greater(t, all[0].Bytes, int64(1000))
	require.False(t, all[0].InUse)
	require.Empty(t, all[0].Location)
	require.InDelta(t, 10*24, time.Since(all[0].Used).Hours(), 1)
	require.False(t, all[0].Gone(), "nothing says where it is")

	// A run records where the repository is, which counts as a use.
	at := t.TempDir()
	caches.Opened(folder, at)
	all = list(t, dir)
	require.Equal(t, at, all[0].Location)
	require.Less(t, time.Since(all[0].Used), time.Minute)
	require.True(t, all[0].Gone(), "the folder holds no repository")
	require.NoError(t, os.WriteFile(filepath.Join(at, "config"), nil, 0o600))
	require.False(t, all[0].Gone())
	aged(t, folder, 20)
	caches.Opened(folder, at)
	require.Less(t, time.Since(list(t, dir)[0].Used), time.Minute)
	caches.Opened(folder, "smb://nas/share")
	require.False(t, list(t, dir)[0].Gone(), "a server that is away proves nothing")
	id, _, err := caches.Last("", at)
	require.NoError(t, err)
	require.Empty(t, id)
	caches.Opened(filepath.Join(dir, "missing"), at)
	require.NoDirExists(t, filepath.Join(dir, "missing"))
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	made(t, dir, one, 40)
	made(t, dir, two, 40)
	require.NoError(t, caches.Remove(list(t, dir)[0]))
	require.Len(t, list(t, dir), 1)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "removed-123", one), 0o700)) // of a run that was killed
	caches.Sweep(dir)
	require.NoDirExists(t, filepath.Join(dir, "removed-123"))
	require.Len(t, list(t, dir), 1)
}

// TestInUse requires that a cache stays while a run holds its file, or writes with a cache file of its own.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	folder := made(t, dir, one, 40)
	free := list(t, dir)[0]
	for name, hold := range map[string]func() (end func()){
		"directory cache": func() func() {
			c, _, err := dircache.Open(filepath.Join(folder, "dirs"), [16]byte{}, localfs.IOContext{})
			require.NoError(t, err)
			return func() { require.NoError(t, c.Close()) }
		},
		"writer": func() func() {
			l := writerlock.Take(folder, "0123abcd")
			require.NotNil(t, l)
			return func() { l.Release(true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			end := hold()
			require.True(t, list(t, dir)[0].InUse)
			require.ErrorIs(t, caches.Remove(free), caches.ErrInUse)
			require.DirExists(t, filepath.Join(folder, "dirs"))
			end()
			require.False(t, list(t, dir)[0].InUse)
		})
	}
	require.NoError(t, caches.Remove(free))
}

func TestLast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	find := func(location string) string {
		id, opened, err := caches.Last(dir, location)
		require.NoError(t, err)
		if id == "" {
			require.Zero(t, opened)
			return ""
		}
		require.WithinDuration(t, time.Now(), opened, 7*24*time.Hour)
		return filepath.Join(dir, id)
	}
	require.Empty(t, find("/srv"), "no folder")
	first, second := made(t, dir, one, 40), made(t, dir, two, 10)
	require.Empty(t, find("/srv"), "nothing says where they are")
	caches.Opened(first, "/srv")
	caches.Opened(second, "/mnt")
	require.Equal(t, first, find("/srv"))
	require.Equal(t, second, find("/mnt"))
	require.Empty(t, find("/mn"))
	caches.Opened(second, "/srv")
	aged(t, first, 5)
	require.Equal(t, second, find("/srv"), "the one that was used last")
	aged(t, second, 6)
	require.Equal(t, first, find("/srv"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	dir = filepath.Join(dir, "file")
	_, _, err := caches.Last(dir, "/srv")
	require.Error(t, err)
}
