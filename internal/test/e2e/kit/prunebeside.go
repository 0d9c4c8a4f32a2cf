package kit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/mem"
)

// BesideBase is a repository with a forgotten snapshot and its data, which is about to be pruned. The source has that
// very data again: a backup now finds it in the index.
func BesideBase(t *testing.T) *Pruned {
	t.Helper()
	p := NewPruned(t, mem.New())
	p.Few = true
	keep := p.Snapshot(1)
	second := p.Snapshot(2)
	p.Forget(second)
	require.Contains(t, p.Contents, keep)
	return p // the source is as in the snapshot that was forgotten
}
