package lease

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEnded: a writer has ended only if its own file is there, is not a copy, and can be locked. The lock of another
// open file counts in one process too.
func TestEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("leases alone count here")
	}
	cache := t.TempDir()
	file := filepath.Join(cache, folderName, "ab")
	p := Announce(cache, "ab")
	require.NotNil(t, p)
	require.False(t, Ended(cache, "ab"), "at work")
	require.False(t, Ended(cache, "cd"), "unknown")
	require.False(t, Ended("", "ab"))
	require.False(t, Ended(cache, "../writers/ab"))

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(cache, folderName, "copy"), text, 0o600))
	require.False(t, Ended(cache, "copy"), "a copy of the file is not locked by the writer")

	require.NoError(t, p.file.Close()) // as when it is killed
	require.True(t, Ended(cache, "ab"))
	require.True(t, Ended(cache, "ab"), "asking changes nothing")

	for name, text := range map[string]string{"another boot": "x" + string(text), "half written": string(text[:10]),
		"empty": ""} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		require.False(t, Ended(cache, "ab"), name)
	}
	p = Announce(cache, "ef")
	p.End()
	require.NoFileExists(t, filepath.Join(cache, folderName, "ef"))
	(*Presence)(nil).End()
}
