package writerlock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestEnded: a writer has ended only if its own file is there, is not a copy, and can be locked. The lock of another
// open file counts in one process too.
func TestEnded(t *testing.T) {
	cache := t.TempDir()
	file := filepath.Join(cache, folderName, "ab")
	l := Take(cache, "ab")
	require.NotNil(t, l)
	require.False(t, Ended(cache, "ab"), "at work")
	require.False(t, Ended(cache, "cd"), "unknown")
	require.False(t, Ended("", "ab"))
	require.False(t, Ended(cache, "../writers/ab"))

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(cache, folderName, "copy"), text, 0o600))
	require.False(t, Ended(cache, "copy"), "a copy of the file is not locked by the writer")

	require.NoError(t, l.file.Close()) // as when it is killed
	require.True(t, Ended(cache, "ab"))
	require.True(t, Ended(cache, "ab"), "asking changes nothing")

	for name, text := range map[string]string{"another boot": "x" + string(text), "half written": string(text[:10]),
		"empty": ""} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.False(t, Ended(cache, "ab"), name)
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(cache, folderName, "pipe"), 0o600))
	require.False(t, Ended(cache, "pipe"))
	require.Nil(t, Take(cache, "pipe"))
	l = Take(cache, "ef")
	l.Release(true)
	require.NoFileExists(t, filepath.Join(cache, folderName, "ef"))
	l = Take(cache, "01")
	l.Release(false)
	require.True(t, Ended(cache, "01"), "its lease may still be there")
	(*Lock)(nil).Release(true)
}
