package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// A Finder resolves each file system once, by whatever path it is reached.
func TestFinderAsksOnceForEachFileSystem(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	require.NoError(t, os.Mkdir(below, 0o755))
	require.NoError(t, os.Symlink(below, filepath.Join(dir, "link")))
	file := filepath.Join(below, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	f := NewFinder()
	first, err := f.Of(dir)
	require.NoError(t, err)
	alone, err := NewFinder().Of(dir)
	require.NoError(t, err)
	require.Equal(t, alone, first)
	require.Len(t, f.known, 1)
	for dev := range f.known {
		f.known[dev] = Info{FS: "remembered"} // a new query would not return this
	}
	for _, path := range []string{dir, below, below + "/../below", filepath.Join(dir, "link")} {
		info, err := f.Of(path)
		require.NoError(t, err)
		require.Equal(t, "remembered", info.FS, path)
	}
	open, err := localfs.OpenDir(below)
	require.NoError(t, err)
	defer open.Release()
	info, err := f.At(open)
	require.NoError(t, err)
	require.Equal(t, "remembered", info.FS)

	info, err = f.Of(file)
	require.NoError(t, err)
	require.Equal(t, first, info, "another file system may be mounted over a file: it is looked at")
	for _, info := range f.known {
		require.Equal(t, "remembered", info.FS, "and says nothing of the directory")
	}
	proc, err := f.Of("/proc")
	require.NoError(t, err)
	require.Equal(t, "proc", proc.FS)
	require.Len(t, f.known, 2)
	_, err = f.Of(filepath.Join(file, "below a file"))
	require.ErrorContains(t, err, "find device of "+file)
}

// What does not exist yet counts as what the nearest directory lies on.
func TestFinderOfWhatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	f := NewFinder()
	there, err := f.Of(dir)
	require.NoError(t, err)
	not, err := f.Of(filepath.Join(dir, "not", "made", "yet"))
	require.NoError(t, err)
	require.Equal(t, there, not)
}
