package device

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// completed reads how many reads and writes a sysfs directory's stat counts, as a watcher does.
func completed(t *testing.T, dir string) (reads, writes uint64) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(raw))
	require.GreaterOrEqual(t, len(fields), 9)
	reads, err = strconv.ParseUint(fields[0], 10, 64)
	require.NoError(t, err)
	writes, err = strconv.ParseUint(fields[4], 10, 64)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "inflight"))
	return reads, writes
}

// writeThrough writes a file and waits until it is on the device.
func writeThrough(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	_, err = file.Write(make([]byte, 64<<10))
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	require.NoError(t, file.Close())
}

// What a watcher opens must count what is written to the path, for every way in which that can be mounted.
func TestMountedDomains(t *testing.T) {
	testkit.Slow(t)
	for kind, size := range map[string]int64{"ext4": 16 << 20, "xfs": 320 << 20, "btrfs": 128 << 20} {
		t.Run(kind, func(t *testing.T) {
			name, point := loopDevice(t, memoryDir(t), kind, size)
			say(t, name, "1")
			require.NoError(t, os.Mkdir(filepath.Join(point, "dir"), 0o755))
			bound := mountAt(t, "--bind", filepath.Join(point, "dir"))
			info := of(t, point)
			require.Equal(t, HDD, info.Medium)
			require.Equal(t, kind, info.FS)
			require.Regexp(t, "^"+regexp.QuoteMeta(name)+"@[1-9][0-9]*$", info.Key)
			require.False(t, info.Indirect)
			require.False(t, info.Weak, "the flag was set")
			for _, path := range []string{point, filepath.Join(point, "dir"), bound} {
				require.Equal(t, info, of(t, path))
				require.Equal(t, info, atDir(t, path), "%s by descriptor", path)
			}
			_, leaf := completed(t, info.Leaves[0].Sysfs)
			writeThrough(t, filepath.Join(bound, "file"))
			_, after := completed(t, info.Leaves[0].Sysfs)
			require.Greater(t, after, leaf)
			say(t, name, "0")
			memory := of(t, point)
			require.Equal(t, Memory, memory.Medium)
			require.Empty(t, memory.Key)
			said := Override(memory, SSD)
			require.Equal(t, info.Key, said.Key)
		})
	}
}

func TestFileBoundOverAnother(t *testing.T) {
	name, point := loopDevice(t, memoryDir(t), "ext4", 16<<20)
	say(t, name, "1")
	writeThrough(t, filepath.Join(point, "file"))
	place := filepath.Join(t.TempDir(), "place")
	require.NoError(t, os.WriteFile(place, nil, 0o600))
	if out, ok := command("mount", "--bind", filepath.Join(point, "file"), place); !ok {
		t.Skip("needs to mount: ", out)
	}
	t.Cleanup(func() {
		out, ok := command("umount", place)
		require.True(t, ok, out)
	})
	info := of(t, place)
	require.Equal(t, []string{name}, info.Disks)
	require.Equal(t, HDD, info.Medium)
}

func TestPartitions(t *testing.T) {
	loop := loopFile(t, memoryDir(t), 64<<20)
	name := filepath.Base(loop)
	say(t, name, "1")
	for number, from := range map[string]string{"1": "2048", "2": "65536"} { // 16 MiB each, in sectors
		if out, ok := command("addpart", loop, number, from, "32768"); !ok {
			t.Skip("needs partitions: ", out)
		}
		t.Cleanup(func() {
			out, ok := command("delpart", loop, number)
			require.True(t, ok, out)
		})
	}
	if _, err := os.Stat(loop + "p2"); err != nil {
		t.Skip("needs nodes for partitions: ", err)
	}
	first, second := mkfs(t, "ext4", loop+"p1"), mkfs(t, "ext4", loop+"p2")
	one, two := of(t, first), of(t, second)
	require.Equal(t, one.Key, two.Key)
	require.True(t, Overlaps(one, two))
	require.Equal(t, filepath.Join("/sys/devices/virtual/block", name), one.Leaves[0].Sysfs)
	require.Equal(t, HDD, one.Medium)
	require.Equal(t, one.Key, of(t, loop+"p2").Key, "the device itself")
	_, leaf := completed(t, one.Leaves[0].Sysfs)
	writeThrough(t, filepath.Join(second, "file"))
	_, after := completed(t, one.Leaves[0].Sysfs)
	require.Greater(t, after, leaf, "the disk counts what its other partition does")
}

func TestBtrfsOnTwo(t *testing.T) {
	dir := memoryDir(t)
	a, b := loopFile(t, dir, 128<<20), loopFile(t, dir, 128<<20)
	point := mkfs(t, "btrfs", a, b)
	say(t, filepath.Base(a), "1")
	info := of(t, point)
	require.Equal(t, HDD, info.Medium)
	require.Len(t, info.Leaves, 2)
	require.Equal(t, info, atDir(t, point))
	for _, device := range []string{a, b} {
		require.True(t, Overlaps(info, of(t, device)), device)
	}
	if out, ok := command("btrfs", "subvolume", "create", filepath.Join(point, "sub")); ok {
		require.Equal(t, info, atDir(t, filepath.Join(point, "sub")))
	} else {
		t.Log("no subvolume: ", out)
	}
}

// A directory that may be passed but not listed does not reveal its btrfs; the mount table does.
func TestBtrfsThatIsNotAsked(t *testing.T) {
	name, point := loopDevice(t, memoryDir(t), "btrfs", 128<<20)
	say(t, name, "1")
	o, err := lookAt(point)
	require.NoError(t, err)
	require.NotEmpty(t, o.label)
	asked := hostView().inform(&o)
	o.label = ""
	reported := hostView().inform(&o)
	require.Equal(t, HDD, reported.Medium)
	require.Equal(t, asked.Key, reported.Key)
}

func TestLoopInBtrfs(t *testing.T) {
	outer, point := loopDevice(t, memoryDir(t), "btrfs", 256<<20)
	say(t, outer, "1")
	inner, deep := loopDevice(t, point, "ext4", 16<<20)
	require.NotEqual(t, outer, inner)
	info := of(t, deep)
	require.Equal(t, HDD, info.Medium, "the 0 that the kernel gave it means nothing")
	require.Equal(t, []string{outer}, info.Disks)
	require.True(t, info.Indirect)
	require.True(t, Overlaps(info, of(t, point)))
}

// A loop device that is detached and attached again under the same name is another disk.
func TestSequence(t *testing.T) {
	file := filepath.Join(memoryDir(t), "file")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a loop device")
	}
	loop, ok := command("losetup", "--find", "--show", file)
	if !ok {
		t.Skip("needs loop devices: ", loop)
	}
	before := of(t, loop)
	out, ok := command("losetup", "--detach", loop)
	require.True(t, ok, out)
	if out, ok := command("losetup", loop, file); !ok {
		t.Skip("another process took the device meanwhile: ", out)
	}
	after := of(t, loop)
	out, ok = command("losetup", "--detach", loop)
	require.True(t, ok, out)
	if before.Leaves[0].Seq == 0 {
		t.Skip("the kernel reports no sequence number")
	}
	require.Equal(t, before.Disks, after.Disks)
	require.NotEqual(t, before.Leaves[0].key(), after.Leaves[0].key())
	require.False(t, Overlaps(before, after))
}

func TestAtOfThisMachine(t *testing.T) {
	path, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, of(t, path), atDir(t, path))
	dir, err := localfs.OpenDir("/proc/self")
	require.NoError(t, err)
	defer dir.Release()
	info, err := NewFinder().At(dir)
	require.NoError(t, err)
	require.Empty(t, info.Key)
	require.Equal(t, Unknown, info.Medium)
	for _, path := range []string{"/", path} {
		info := of(t, path)
		for _, leaf := range info.Leaves {
			completed(t, leaf.Sysfs)
		}
	}
}
