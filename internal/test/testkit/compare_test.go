package testkit

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sample has one entry of every kind that mutations need.
func sample() Dir {
	at := time.Unix(1_700_000_000, 123_456_789)
	return Dir{
		"dir": With{Of: Dir{"f": File{Data: []byte("inner"), Mtime: at}}, Mtime: at},
		"file": With{
			Of: File{Data: Text(1, 5<<18)}, Mode: 0o640, Mtime: at, Xattrs: map[string]string{"user.kept": "value"},
		},
		"hole":  With{Of: Sparse{Size: 8 << 20, Data: map[int64][]byte{6 << 20: Noise(1, 4096)}}, Mtime: at},
		"link":  With{Of: Symlink{Target: "file"}, Mtime: at},
		"pipe":  With{Of: Fifo{}, Mode: 0o600, Mtime: at},
		"one":   File{Data: []byte("shared"), Mtime: at},
		"two":   Hardlink{To: "one"},
		"three": File{Data: []byte("shared"), Mtime: at},
	}
}

// mutation changes one thing of the tree at root; want is what the line about it says, and ignore what hides it.
type mutation struct {
	name   string
	root   bool // only root can do it
	change func(t *testing.T, root string)
	path   string
	want   string
	ignore Aspect
}

// keepTimes runs change and sets the times of names back, so that only the change itself can be seen.
func keepTimes(t *testing.T, change func() error, names ...string) {
	t.Helper()
	times := make([]os.FileInfo, len(names))
	var err error
	for i, name := range names {
		times[i], err = os.Lstat(name)
		require.NoError(t, err)
	}
	require.NoError(t, change())
	for i, name := range names {
		ts := unix.NsecToTimespec(times[i].ModTime().UnixNano())
		require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func poke(t *testing.T, name string, off int64, data []byte) {
	t.Helper()
	keepTimes(t, func() error {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt(data, off)
		return err
	}, name)
}

func setTime(t *testing.T, name string, nsec int64) {
	t.Helper()
	ts := unix.Timespec{Sec: 1_700_000_000, Nsec: nsec}
	require.NoError(t, unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
}

// replace makes something else under a name, the directory's time kept.
func replace(t *testing.T, name string, build func() error) {
	t.Helper()
	keepTimes(t, func() error {
		require.NoError(t, os.RemoveAll(name))
		return build()
	}, filepath.Dir(name))
	setTime(t, name, 123_456_789)
}

func contentMutations() []mutation {
	return []mutation{
		{"last byte", false, func(t *testing.T, r string) { poke(t, r+"/file", 5<<18-1, []byte{0}) },
			"file", "content differs at byte 1310719 of 1310720", AspectContent},
		{"byte in a hole", false, func(t *testing.T, r string) { poke(t, r+"/hole", 100, []byte{1}) },
			"hole", "content differs at byte 100 of 8388608", AspectContent},
		{"size", false, func(t *testing.T, r string) { poke(t, r+"/file", 5<<18, []byte{1}) },
			"file", "size 1310720, 1310721", AspectContent},
		{"filled hole", false, func(t *testing.T, r string) { poke(t, r+"/hole", 0, make([]byte, 6<<20)) },
			"hole", "sparse: takes ", AspectSparse},
		{"symlink target", false, func(t *testing.T, r string) {
			replace(t, r+"/link", func() error { return os.Symlink("filf", r+"/link") })
		}, "link", `symlink to "file", "filf"`, 0},
		{"type", false, func(t *testing.T, r string) {
			replace(t, r+"/pipe", func() error { return os.WriteFile(r+"/pipe", nil, 0o600) })
		}, "pipe", "type fifo, file", 0},
		{"split hard link", false, func(t *testing.T, r string) {
			replace(t, r+"/two", func() error { return os.WriteFile(r+"/two", []byte("shared"), 0o644) })
		}, "two", "hard link of ./one, ./two", AspectHardlinks},
		{"joined hard link", false, func(t *testing.T, r string) {
			replace(t, r+"/three", func() error { return os.Link(r+"/one", r+"/three") })
		}, "three", "hard link of ./three, ./one", AspectHardlinks},
		{"missing", false, func(t *testing.T, r string) {
			keepTimes(t, func() error { return os.Remove(r + "/dir/f") }, r+"/dir")
		}, "dir/f", "only in a", 0},
		{"additional", false, func(t *testing.T, r string) {
			keepTimes(t, func() error { return os.Mkdir(r+"/dir/g", 0o755) }, r+"/dir")
		}, "dir/g", "only in b", 0},
	}
}

func attributeMutations() []mutation {
	list := []mutation{
		{"mode", false, func(t *testing.T, r string) { require.NoError(t, unix.Chmod(r+"/file", 0o641)) },
			"file", "mode 0640, 0641", AspectMode},
		{"setuid", false, func(t *testing.T, r string) { require.NoError(t, unix.Chmod(r+"/file", 0o4640)) },
			"file", "mode 0640, 4640", AspectMode},
		{"mode of a directory", false, func(t *testing.T, r string) { require.NoError(t, unix.Chmod(r+"/dir", 0o1755)) },
			"dir", "mode 0755, 1755", AspectMode},
		{"mode of a fifo", false, func(t *testing.T, r string) { require.NoError(t, unix.Chmod(r+"/pipe", 0o644)) },
			"pipe", "mode 0600, 0644", AspectMode},
		{"user", true, func(t *testing.T, r string) { require.NoError(t, os.Lchown(r+"/link", 1, -1)) },
			"link", "owner 0:0, 1:0", AspectOwner},
		{"group", true, func(t *testing.T, r string) { require.NoError(t, os.Lchown(r+"/dir", -1, 7)) },
			"dir", "owner 0:0, 0:7", AspectOwner},
		{"a nanosecond", false, func(t *testing.T, r string) { setTime(t, r+"/file", 123_456_788) },
			"file", "mtime 1700000000.123456789, 1700000000.123456788", AspectMtime},
		{"mtime of a directory", false, func(t *testing.T, r string) { setTime(t, r+"/dir", 5) },
			"dir", "mtime 1700000000.123456789, 1700000000.000000005", AspectDirMtime},
		{"mtime of a symlink", false, func(t *testing.T, r string) { setTime(t, r+"/link", 5) },
			"link", "mtime 1700000000.123456789, 1700000000.000000005", AspectMtime},
		{"value of an xattr", false, func(t *testing.T, r string) {
			require.NoError(t, unix.Lsetxattr(r+"/file", "user.kept", []byte("valuf"), 0))
		}, "file", `xattr user.kept "value", "valuf"`, AspectXattrs},
		{"xattr gone", false, func(t *testing.T, r string) { require.NoError(t, unix.Lremovexattr(r+"/file", "user.kept")) },
			"file", "xattr user.kept only in a", AspectXattrs},
		{"empty xattr added", false, func(t *testing.T, r string) {
			require.NoError(t, unix.Lsetxattr(r+"/dir", "user.new", nil, 0))
		}, "dir", "xattr user.new only in b", AspectXattrs},
		{"flags", false, func(t *testing.T, r string) { require.NoError(t, addFlags(unix.AT_FDCWD, r+"/file", FlagNoDump)) },
			"file", "flags 0x0, 0x", AspectFlags},
		{"flags of a directory", false, func(t *testing.T, r string) {
			require.NoError(t, addFlags(unix.AT_FDCWD, r+"/dir", FlagNoDump))
		}, "dir", "flags 0x0, 0x", AspectFlags},
		{"own mode of the root", false, func(t *testing.T, r string) { require.NoError(t, unix.Chmod(r, 0o700)) },
			".", "mode 0755, 0700", AspectMode},
	}
	if runtime.GOOS == "linux" {
		list = append(list, mutation{"xattr of a symlink", true, func(t *testing.T, r string) {
			require.NoError(t, unix.Lsetxattr(r+"/link", "trusted.new", []byte("v"), 0))
		}, "link", "xattr trusted.new only in b", AspectXattrs}, mutation{"acl", false, func(t *testing.T, r string) {
			require.NoError(t, unix.Lsetxattr(r+"/dir", "system.posix_acl_default", []byte(PosixACL(7, 6)), 0))
		}, "dir", "xattr system.posix_acl_default only in b", AspectXattrs})
	}
	return list
}

func TestCompareDetectsEveryMutation(t *testing.T) {
	tree := sample()
	for _, m := range append(contentMutations(), attributeMutations()...) {
		t.Run(m.name, func(t *testing.T) {
			if m.root {
				RequireRoot(t)
			}
			a, b := twins(t, tree)
			m.change(t, b)
			lines := Compare(t.Context(), a, b, CompareOptions{})
			require.Len(t, lines, 1)
			path := m.path
			if path != "." {
				path = "./" + path
			}
			require.True(t, strings.HasPrefix(lines[0], path+": "+m.want), "%s", lines[0])
			if m.ignore != 0 {
				require.Empty(t, Compare(t.Context(), a, b, CompareOptions{Ignore: m.ignore}))
			}
			require.Len(t, Compare(t.Context(), b, a, CompareOptions{}), 1, "and the other way round")
		})
	}
}

// twins writes tree twice and expects no difference.
func twins(t *testing.T, tree Dir) (a, b string) {
	t.Helper()
	base := TempDir(t)
	a, b = base+"/a", base+"/b"
	for _, root := range []string{a, b} {
		Write(t, root, tree)
		require.NoError(t, os.Chmod(root, 0o755))
		setTime(t, root, 0)
	}
	require.Empty(t, Compare(t.Context(), a, b, CompareOptions{}))
	return a, b
}

func TestCompareDevices(t *testing.T) {
	RequireRoot(t)
	base := TempDir(t)
	Write(t, base+"/a", Dir{"d": With{Of: Device{Major: 1, Minor: 3}, Mtime: time.Unix(1, 0)}})
	Write(t, base+"/b", Dir{"d": With{Of: Device{Major: 1, Minor: 5}, Mtime: time.Unix(1, 0)}})
	Write(t, base+"/c", Dir{"d": With{Of: Device{Block: true, Major: 1, Minor: 3}, Mtime: time.Unix(1, 0)}})
	opt := CompareOptions{Ignore: AspectDirMtime}
	require.Equal(t, []string{"./d: device 1:3, 1:5"}, Compare(t.Context(), base+"/a", base+"/b", opt))
	require.Equal(t, []string{"./d: type character device, block device"}, Compare(t.Context(), base+"/a", base+"/c", opt))
}

func TestCompareOptions(t *testing.T) {
	a, b := twins(t, sample())
	require.NoError(t, unix.Lsetxattr(b+"/file", "user.new", []byte("v"), 0))
	require.NoError(t, os.Chmod(b+"/one", 0o600))
	require.NoError(t, os.Chmod(b+"/file", 0o600))
	all := Compare(t.Context(), a, b, CompareOptions{})
	require.Len(t, all, 4, "one and two are one object")
	require.Equal(t, all[:2], Compare(t.Context(), a, b, CompareOptions{Limit: 2}))
	quiet := func(name string) bool { return name == "user.new" }
	require.Len(t, Compare(t.Context(), a, b, CompareOptions{IgnoreXattr: quiet}), 3)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	lines := Compare(stopped, a, a, CompareOptions{})
	require.Len(t, lines, 1, "an interrupted comparison is not equality")
	require.Contains(t, lines[0], "interrupted")
	require.Contains(t, Compare(t.Context(), a, b+"/nowhere", CompareOptions{})[0], "no such file or directory")
}

func TestCompareBeyondPathMax(t *testing.T) {
	step := strings.Repeat("p", 250)
	a, b := TempDir(t), TempDir(t)
	Write(t, a, chain(step, 20))
	Write(t, b, chain(step, 20))
	opt := CompareOptions{Ignore: AspectMtime | AspectDirMtime}
	require.Empty(t, Compare(t.Context(), a, b, opt))

	fd, err := unix.Open(b, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range 19 {
		next, err := openDir(fd, step)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = next
	}
	require.NoError(t, unix.Fchmodat(fd, "bottom", 0o600, 0))
	require.NoError(t, unix.Close(fd))
	lines := Compare(t.Context(), a, b, opt)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "/bottom: mode 0644, 0600")
}
