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

// List finds in a directory that was opened just now what Entries finds, which reads it again from its start.
func TestListReadsWhatWasOpenedJustNow(t *testing.T) {
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
	for what, read := range []func([]byte,
		func([]byte, tree.Type, uint64) error) error{dir.List, dir.Entries, dir.Entries} {
		var got []string
		require.NoError(t, read(make([]byte, minDirBuf), func(name []byte, typ tree.Type, _ uint64) error {
			require.Equal(t, tree.File, typ)
			got = append(got, string(name))
			return nil
		}))
		slices.Sort(got)
		require.Equal(t, want, got, what)
	}
}
