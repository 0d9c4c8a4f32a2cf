package device

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// command runs a tool and returns what it prints; ok is false when it is missing or fails, with the reason in out.
func command(name string, args ...string) (out string, ok bool) {
	path, err := exec.LookPath(name)
	if err != nil { // a user's PATH often lacks these
		path = filepath.Join("/usr/sbin", name)
	}
	raw, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s: %v: %s", name, err, raw), false
	}
	return strings.TrimSpace(string(raw)), true
}

// loopFile attaches a new loop device to a new file in dir, and returns the path of the device. It skips where that is
// not possible.
func loopFile(t *testing.T, dir string, size int64, options ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a loop device")
	}
	file, err := os.CreateTemp(dir, "tidemark-loop-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(file.Name()) })
	require.NoError(t, file.Truncate(size))
	require.NoError(t, file.Close())
	loop, ok := command("losetup", append(options, "--find", "--show", file.Name())...)
	if !ok {
		t.Skip("needs loop devices: ", loop)
	}
	t.Cleanup(func() {
		out, ok := command("losetup", "--detach", loop)
		require.True(t, ok, out)
	})
	return loop
}

// mkfs makes a file system on some devices and mounts it.
func mkfs(t *testing.T, kind string, devices ...string) (point string) {
	t.Helper()
	if out, ok := command("mkfs."+kind, append([]string{"-q"}, devices...)...); !ok {
		t.Skip("needs a file system to make: ", out)
	}
	return mountAt(t, "-t", kind, devices[0])
}

// mountAt mounts at a new place.
func mountAt(t *testing.T, args ...string) (point string) {
	t.Helper()
	point, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	if out, ok := command("mount", append(args, point)...); !ok {
		t.Skip("needs to mount: ", out)
	}
	t.Cleanup(func() {
		out, ok := command("umount", point)
		require.True(t, ok, out)
	})
	return point
}

// loopDevice makes a loop device of a new file in dir with a file system on it, mounts that, and returns the name of
// the device and the mount point.
func loopDevice(t *testing.T, dir, kind string, size int64) (name, point string) {
	t.Helper()
	loop := loopFile(t, dir, size)
	return filepath.Base(loop), mkfs(t, kind, loop)
}

// say sets the kernel's flag of a device.
func say(t *testing.T, name, rotational string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join("/sys/block", name, "queue/rotational"), []byte(rotational), 0o644))
}

func of(t *testing.T, path string) Info {
	t.Helper()
	info, err := NewFinder().Of(path)
	require.NoError(t, err)
	t.Log(info.Why)
	return info
}

// atDir asks by an open directory that is reached from the one above, as a walk does.
func atDir(t *testing.T, path string) Info {
	t.Helper()
	up, err := localfs.OpenDir(filepath.Dir(path))
	require.NoError(t, err)
	defer up.Release()
	dir, err := up.Open(filepath.Base(path))
	require.NoError(t, err)
	defer dir.Release()
	info, err := NewFinder().At(dir)
	require.NoError(t, err)
	return info
}

// memoryDir is a directory of files without a device behind them, so that the I/O of a loop device is all its own.
func memoryDir(t *testing.T) string {
	t.Helper()
	if info, err := NewFinder().Of("/dev/shm"); err != nil || info.Medium != Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "tidemark-device-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestLoopInMemory(t *testing.T) {
	name, point := loopDevice(t, memoryDir(t), "ext4", 4<<20)
	path := filepath.Join(point, "deep/er")
	say(t, name, "1")
	info := of(t, path)
	require.Equal(t, HDD, info.Medium)
	require.Equal(t, []string{name}, info.Disks)
	require.Equal(t, "ext4", info.FS)
	say(t, name, "0")
	require.Equal(t, Memory, of(t, path).Medium, "no layer reports rotation, and memory is what it is")
}

func TestLoopOnADisk(t *testing.T) {
	dir := t.TempDir()
	below := of(t, dir)
	if len(below.Disks) != 1 || strings.HasPrefix(below.Disks[0], "loop") {
		t.Skip("the temporary directory is not on a single disk: ", below.Why)
	}
	name, point := loopDevice(t, dir, "ext4", 4<<20)
	flag, err := os.ReadFile(filepath.Join("/sys/block", below.Disks[0], "queue/rotational"))
	require.NoError(t, err)
	as, other, said := "1", "0", SSD
	if strings.TrimSpace(string(flag)) == "0" {
		as, other, said = "0", "1", HDD
	}
	say(t, name, as)
	require.Equal(t, below.Medium, of(t, point).Medium, "it is what its file is on")
	say(t, name, other)
	info := of(t, point)
	require.Equal(t, said, info.Medium, "the flag was set otherwise")
	require.Equal(t, below.Disks, info.Disks)
}

func TestSubvolumes(t *testing.T) {
	name, point := loopDevice(t, memoryDir(t), "btrfs", 128<<20)
	say(t, name, "1")
	if out, ok := command("btrfs", "subvolume", "create", filepath.Join(point, "sub")); !ok {
		t.Skip("needs the tools of btrfs: ", out)
	}
	for _, path := range []string{"", "sub", "sub/not/yet"} {
		info := of(t, filepath.Join(point, path))
		require.Equal(t, HDD, info.Medium)
		require.Equal(t, []string{name}, info.Disks)
		require.Equal(t, "btrfs", info.FS)
	}
}

func TestMountedOverlay(t *testing.T) {
	name, point := loopDevice(t, memoryDir(t), "ext4", 4<<20)
	say(t, name, "1")
	dirs := map[string]string{}
	for _, name := range []string{"lower", "upper", "work"} {
		dirs[name] = filepath.Join(point, name+" dir")
		require.NoError(t, os.Mkdir(dirs[name], 0o755))
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dirs["lower"], dirs["upper"], dirs["work"])
	merged := mountAt(t, "-t", "overlay", "-o", layers, "overlay")
	info := of(t, merged)
	require.True(t, Overlaps(info, of(t, point)))
	require.Equal(t, info, atDir(t, merged))
	require.Equal(t, HDD, info.Medium)
	require.Equal(t, []string{name}, info.Disks)
	require.Equal(t, "overlay", info.FS)
}
