package record

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestFullDiskIsReportedOnceAndFailsNothing(t *testing.T) {
	dir := t.TempDir()
	testkit.MountMemory(t, dir, "64k")
	var warnings []string
	r, err := Open(dir, func(text string) { warnings = append(warnings, text) })
	require.NoError(t, err)
	r.Event(note(1, "", "before"))
	big := filepath.Join(dir, "big")
	_ = os.WriteFile(big, make([]byte, 128<<10), 0o600) // until the disk is full
	for range 2000 {
		r.Event(note(2, "", "lost or not, as far as the page has space"))
	}
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "no space left on device")
	require.NoError(t, os.Remove(big))
	r.Event(note(3, "", "after"))
	require.NoError(t, r.Close())
	all := texts(t, dir, Filter{})
	require.Equal(t, "before", all[0])
	require.Contains(t, all, "after")
	require.Contains(t, all, "The record has a gap: it could not be written")
}
