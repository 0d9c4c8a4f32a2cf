package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// TestBindMountIsAMount: it has the device number of its parent, and is a mount point all the same.
func TestBindMountIsAMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.Mkdir(from, 0o755))
	require.NoError(t, os.Mkdir(to, 0o755))
	absent := func() int {
		all, err := notMounted([]string{to}, []string{to}, localfs.Mounts)
		require.NoError(t, err)
		return len(all)
	}
	require.Equal(t, 1, absent())
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no right to mount: %v", err)
	}
	mounted := true
	defer func() {
		if mounted {
			_ = unix.Unmount(to, unix.MNT_DETACH)
		}
	}()
	require.Zero(t, absent())
	require.NoError(t, unix.Unmount(to, 0))
	mounted = false
	require.Equal(t, 1, absent())
}
