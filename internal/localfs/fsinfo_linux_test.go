package localfs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestFSOfPseudoFileSystems(t *testing.T) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for path, kind := range map[string]string{
		"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs", "/dev/pts": "devpts", "/sys/kernel/debug": "debugfs",
	} {
		if !strings.Contains(string(table), " "+path+" ") || !strings.Contains(string(table), " - "+kind+" ") {
			continue // a container has its own
		}
		info, err := openAt(t, path).FS()
		require.NoError(t, err)
		require.Equal(t, kind, info.Type)
		require.True(t, info.Pseudo, path)
	}
	info, err := openAt(t, "/proc").FS()
	require.NoError(t, err)
	require.Equal(t, FSInfo{Type: "proc", Pseudo: true, ReadOnly: info.ReadOnly, ID: info.ID, Mount: info.Mount}, info)
}

func TestFSOfTheTemporaryDirectory(t *testing.T) {
	d, _ := openTemp(t)
	info, err := d.FS()
	require.NoError(t, err)
	require.False(t, info.Pseudo)
	require.False(t, info.ReadOnly)
	require.NotEmpty(t, info.Type)
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		kind                   string
		pseudo, remote, stable bool
	}{
		{"ext4", false, false, true}, {"hfs", false, false, true}, {"xfs", false, false, true}, {"btrfs", false, false, true},
		{"tmpfs", false, false, true}, {"overlay", false, false, true}, {"apfs", false, false, true},
		{"devtmpfs", true, false, false}, {"cgroup2", true, false, false}, {"autofs", true, false, false},
		{"nfs4", false, true, true}, {"ceph", false, true, true}, {"cifs", false, true, false},
		{"smb3", false, true, false}, {"9p", false, true, false}, {"vfat", false, false, false},
		{"exfat", false, false, false}, {"fuse.sshfs", false, true, false}, {"fuse.mergerfs", false, false, false},
		{"fuseblk", false, false, false}, {"macfuse", false, false, false}, {"fuse.lxcfs", true, false, false},
		{"gfs2", false, false, true}, {"a file system of the future", false, false, true},
	} {
		info := FSInfo{Type: c.kind}
		info.classify()
		dated := c.kind == "ext4" || c.kind == "xfs" || c.kind == "btrfs" || c.kind == "tmpfs"
		require.Equal(t, FSInfo{Type: c.kind, Pseudo: c.pseudo, Remote: c.remote, StableInodes: c.stable, Dated: dated}, info)
	}
}

// onDisk skips the test if the page cache of the temporary directory cannot be queried or dropped.
func onDisk(t *testing.T) (*Dir, string) {
	t.Helper()
	d, path := openTemp(t)
	info, err := d.FS()
	require.NoError(t, err)
	if info.Type == "tmpfs" {
		t.Skip("the temporary directory is memory itself")
	}
	write(t, path+"/probe", "x")
	f, err := d.OpenFile("probe")
	require.NoError(t, err)
	defer f.Close()
	if _, ok := f.cached(0, 1); !ok {
		t.Skip("this kernel does not report what is in the page cache")
	}
	return d, path
}

// cleanFile makes a file that is on disk, with the first warm bytes in memory, and opens it.
func cleanFile(t *testing.T, d *Dir, size, warm int64) *File {
	t.Helper()
	w, err := d.CreateFile("f")
	require.NoError(t, err)
	_, err = w.WriteAt(make([]byte, size), 0)
	require.NoError(t, err)
	require.NoError(t, w.Sync())
	require.NoError(t, w.Close())
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, unix.Fadvise(f.fd, 0, 0, unix.FADV_RANDOM)) // no reading ahead, so that counts are exact
	f.drop(0, size)
	if pages, _ := f.cached(0, size); pages > 0 {
		t.Skip("the kernel keeps these pages")
	}
	readAll(t, f, warm)
	return f
}

func readAll(t *testing.T, f *File, n int64) {
	t.Helper()
	p := make([]byte, 1<<16)
	for off := int64(0); off < n; off += int64(len(p)) {
		_, err := f.ReadAt(p[:min(n-off, int64(len(p)))], off)
		require.NoError(t, err)
	}
}

func TestPageCacheIsLeftAsFound(t *testing.T) {
	const small, large = 100 << 10, 8 << 20
	page := int64(os.Getpagesize())
	for _, c := range []struct {
		name       string
		size, warm int64
		note       bool
		want       int64 // bytes in memory afterwards
	}{
		{"small and cold goes", small, 0, true, 0},
		{"small and warm stays", small, small, true, small},
		{"large and cold goes", large, 0, true, 0},
		{"large and warm stays", large, large, true, large},
		{"the warm segments of a large one stay", large, 2 << 20, true, 2 << 20},
		{"small and unknown stays", small, 0, false, small},
		{"large and unknown goes", large, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := onDisk(t)
			f := cleanFile(t, d, c.size, c.warm)
			if c.note {
				f.NoteCache()
			}
			readAll(t, f, c.size)
			f.DropCache(0, c.size/2)
			f.DropCache(c.size/2, c.size-c.size/2)
			pages, ok := f.cached(0, c.size)
			require.True(t, ok)
			require.EqualValues(t, c.want/page, pages)
		})
	}
}

func TestDropCacheOfStrangeRanges(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", strings.Repeat("x", 3<<20))
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	f.NoteCache()
	f.DropCache(0, 0)
	f.DropCache(5, -1)
	f.DropCache(1<<40, 1<<30) // behind what was there
	readAll(t, f, 3<<20)
}
