package roundtrip

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// writeOut flushes the file system of a folder: the next backup reads a file with dirty pages again.
func writeOut(t *testing.T, folder string) {
	t.Helper()
	f, err := os.Open(folder)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Syncfs(int(f.Fd())))
}
