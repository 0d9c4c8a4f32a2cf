package format_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVectorsAreFrozen: VECTORS has the SHA-256 of each test vector, in the form of sha256sum. A line never changes; a
// new vector adds one.
func TestVectorsAreFrozen(t *testing.T) {
	frozen, err := os.ReadFile("VECTORS")
	require.NoError(t, err)
	paths, err := filepath.Glob("*/testdata/*.hex")
	require.NoError(t, err)
	var found strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		fmt.Fprintf(&found, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(path))
	}
	require.Equal(t, strings.Split(string(frozen), "\n"), strings.Split(found.String(), "\n"))
}
