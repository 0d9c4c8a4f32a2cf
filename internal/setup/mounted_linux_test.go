package setup

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A disk that is really mounted is found by its mount point, with its free space, and is another disk than a source in
// memory. A read-only mount is not proposed.
func TestPlacesOnMountedDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	source, err := os.MkdirTemp("/dev/shm", "tidemark-setup-")
	if err != nil {
		t.Skipf("needs /dev/shm: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(source)) })
	image, point := filepath.Join(t.TempDir(), "disk.img"), filepath.Join("/mnt", filepath.Base(source)+" disk")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 64<<20))
	if out, err := exec.Command("mkfs.ext4", "-q", "-m0", image).CombinedOutput(); err != nil {
		t.Skipf("needs mkfs.ext4: %v: %s", err, out)
	}
	require.NoError(t, os.MkdirAll(point, 0o700))
	t.Cleanup(func() { require.NoError(t, os.Remove(point)) })
	if out, err := exec.Command("mount", "-o", "loop", image, point).CombinedOutput(); err != nil {
		t.Skipf("needs a loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(point, unix.MNT_DETACH)) })

	find := func() *Place {
		places, err := Places(&Host{}, []string{source})
		require.NoError(t, err)
		for i := range places {
			if filepath.Dir(places[i].Repository) == point || places[i].Repository == point {
				return &places[i]
			}
		}
		return nil
	}
	p := find()
	require.NotNil(t, p)
	require.Equal(t, filepath.Join(point, folderName), p.Repository)
	require.Regexp(t, `^loop\d+ \(.*ext4\)$`, p.Name)
	require.Empty(t, p.SameDisk)
	require.False(t, p.Holds)
	require.InDelta(t, 55<<20, p.Free, 10<<20)
	require.Equal(t, image, SameDisk(&Host{}, point, []string{image}), "the disk of a loop device is that of its file")

	require.NoError(t, os.MkdirAll(filepath.Join(p.Repository, "keys"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(p.Repository, "config"), nil, 0o600))
	require.True(t, find().Holds)
	require.NoError(t, exec.Command("mount", "-o", "remount,ro", point).Run())
	require.Nil(t, find())
}
