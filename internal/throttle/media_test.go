package throttle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMediaFileThatCannotBeRead: whatever lies in its place counts as an empty one, and nothing waits for it.
func TestMediaFileThatCannotBeRead(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"nothing":   func(string) error { return nil },
		"a fifo":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"null":      func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"endless":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"nonsense":  func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"too large": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat(" ", mediaLimit+1)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, make(filepath.Join(dir, mediaFile)))
			require.Empty(t, readMedia(dir))
			require.NotNil(t, readMedia(dir), "entries are added")
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, mediaFile), []byte(`{"vda:1":"ssd"}`), 0o600))
	require.Equal(t, map[string]string{"vda:1": "ssd"}, readMedia(dir))
}
