package localfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Entries reads a directory from its start each time.
func TestEntriesBeginsAtTheStart(t *testing.T) {
	path := t.TempDir()
	var want []string
	for i := range 300 { // more than one call for the small buffer
		name := fmt.Sprintf("a name of some length %03d", i)
		require.NoError(t, os.WriteFile(filepath.Join(path, name), nil, 0o600))
		want = append(want, name)
	}
	dir, err := OpenDir(path)
	require.NoError(t, err)
	defer dir.Release()
	for range 3 {
		var got []string
		require.NoError(t, dir.Entries(make([]byte, minDirBuf), func(name []byte, typ tree.Type, _ uint64) error {
			require.Equal(t, tree.File, typ)
			got = append(got, string(name))
			return nil
		}))
		slices.Sort(got)
		require.Equal(t, want, got)
	}
}
