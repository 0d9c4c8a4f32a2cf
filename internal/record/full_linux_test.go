package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestFullDiskIsReportedOnceAndFailsNothing(t *testing.T) {
	testkit.RequireRoot(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("needs a mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
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
