package sourcesnap_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/sourcesnap"
)

// commands has commands print some text, and records the ends.
func commands(output string, fails error) (c *sourcesnap.Commands, ends *[][2]string) {
	ends = &[][2]string{}
	return &sourcesnap.Commands{
		Begin: func(context.Context, string) (string, error) { return output, fails },
		End: func(_ context.Context, source, place string) error {
			*ends = append(*ends, [2]string{source, place})
			return nil
		},
	}, ends
}

func TestCommandNamesThePlaceOfTheSource(t *testing.T) {
	dir := t.TempDir()
	source, copied := filepath.Join(dir, "a", "src"), filepath.Join(dir, "b", "src")
	for _, path := range []string{source, copied, filepath.Join(dir, "other")} {
		require.NoError(t, os.MkdirAll(path, 0o700))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "c"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c", "src"), nil, 0o600))

	c, ends := commands("made it\n"+copied+"\n", nil)
	s, err := sourcesnap.Take(t.Context(), c, []string{source, filepath.Join(dir, "missing")}, false)
	require.NoError(t, err)
	require.True(t, s.Any())
	require.Equal(t, copied, s.Place(source))
	require.Empty(t, s.Place(filepath.Join(dir, "missing")))
	require.Empty(t, *ends)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	require.Equal(t, [][2]string{{source, copied}}, *ends)

	failed := errors.New("no room")
	for _, bad := range []struct {
		output string
		fails  error
		want   error
	}{
		{"", nil, sourcesnap.ErrPlace}, {"relative/src\n", nil, sourcesnap.ErrPlace},
		{filepath.Join(dir, "nothing", "src"), nil, sourcesnap.ErrPlace},
		{filepath.Join(dir, "other"), nil, sourcesnap.ErrPlace}, {filepath.Join(dir, "c", "src"), nil, sourcesnap.ErrPlace},
		{copied, failed, failed},
	} {
		c, ends := commands(bad.output, bad.fails)
		_, err := sourcesnap.Take(t.Context(), c, []string{source}, false)
		require.ErrorIs(t, err, bad.want, bad.output)
		require.Len(t, *ends, 1, "what was begun is ended")

		c, ends = commands(bad.output, bad.fails)
		s, err := sourcesnap.Take(t.Context(), c, []string{source}, true)
		require.NoError(t, err)
		require.False(t, s.Any())
		require.Len(t, s.Notes, 1)
		require.NoError(t, s.Close(t.Context()))
		require.Len(t, *ends, 1)
	}
}

func TestLinkIsReadLive(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("nowhere", link))
	c, _ := commands("/tmp/link", nil)
	s, err := sourcesnap.Take(t.Context(), c, []string{link}, false)
	require.NoError(t, err)
	require.False(t, s.Any())
}

func TestFileSystemWithoutSnapshots(t *testing.T) {
	maker, err := sourcesnap.New(sourcesnap.Auto)
	if err != nil {
		require.ErrorIs(t, err, sourcesnap.ErrSystem)
		t.Skip("this system has no snapshots")
	}
	const path = "/dev" // a file system of the kernel, on Linux and macOS
	_, err = sourcesnap.Take(t.Context(), maker, []string{path}, false)
	require.ErrorIs(t, err, sourcesnap.ErrFileSystem)
}
