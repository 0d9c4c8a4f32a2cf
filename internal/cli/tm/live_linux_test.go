package tm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// File systems below the root of the machine are entered as a backup enters them.
func TestFileSystemsBelowTheRoot(t *testing.T) {
	mounts, err := localfs.Mounts()
	require.NoError(t, err)
	mounted := false
	for _, m := range mounts {
		mounted = mounted || m.Path == "/proc"
	}
	if !mounted {
		t.Skip("needs /proc")
	}
	b := rules.NewBuilder()
	b.Flag(rules.Pseudo, "test")
	var found []string
	l := &Live{
		Rules: b.Compile(), Want: Usual, Skip: func(uint64, uint64) bool { return false },
		Visit:   func(c browse.Change) error { found = append(found, c.Status.String()+c.Path); return nil },
		Problem: func(path string, err error) { t.Errorf("%s: %v", path, err) },
	}
	require.NoError(t, l.Compare(t.Context(), "/", &tree.Node{Type: tree.Dir}, "/proc"))
	require.Equal(t, []string{"+/proc"}, found)
}
