package testkit

import (
	"bytes"
	"compress/flate"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func compressed(t *testing.T, p []byte) float64 {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	require.NoError(t, err)
	_, err = w.Write(p)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return float64(out.Len()) / float64(len(p))
}

func TestDataIsSeededAndOfKnownCompressibility(t *testing.T) {
	const n = 300_000
	require.Greater(t, compressed(t, Noise(1, n)), 0.99)
	require.InDelta(t, 0.33, compressed(t, Text(1, n)), 0.1)
	for _, data := range []func(uint64, int) []byte{Noise, Text} {
		require.Len(t, data(1, 12345), 12345)
		require.Empty(t, data(1, 0))
		require.Equal(t, data(7, n), data(7, n))
		require.NotEqual(t, data(7, n), data(8, n))
	}
}

func TestWriteMakesWhatTheTreeSays(t *testing.T) {
	root := TempDir(t)
	at := time.Unix(-5, 42)
	Write(t, root, Dir{
		"f":    File{Data: []byte("data"), Mode: 0o4711, Mtime: at},
		"none": File{Mode: ModeNone},
		"s":    Sparse{Size: 1 << 30, Data: map[int64][]byte{1 << 20: []byte("x")}},
		"d":    With{Of: Dir{"deeper": Dir{"l": Symlink{Target: "../f"}}, "h": Hardlink{To: "f"}}, Mode: 0o1750, Mtime: at},
		"p":    Fifo{},
		"x":    With{Of: File{Mode: 0o600}, Xattrs: map[string]string{"user.k": "v"}},
	})
	st := func(name string) *unix.Stat_t {
		s, err := lstat(unix.AT_FDCWD, root+"/"+name)
		require.NoError(t, err)
		return s
	}
	require.EqualValues(t, unix.S_IFREG|0o4711, st("f").Mode)
	require.Equal(t, unix.Timespec{Sec: -5, Nsec: 42}, st("f").Mtim)
	require.EqualValues(t, 2, st("f").Nlink)
	require.Equal(t, st("f").Ino, st("d/h").Ino)
	require.EqualValues(t, unix.S_IFREG, st("none").Mode)
	require.EqualValues(t, 1<<30, st("s").Size)
	require.Less(t, st("s").Blocks, int64(1000))
	require.EqualValues(t, unix.S_IFDIR|0o1750, st("d").Mode)
	require.Equal(t, unix.Timespec{Sec: -5, Nsec: 42}, st("d").Mtim, "set after its entries were made")
	require.EqualValues(t, unix.S_IFIFO, st("p").Mode&unix.S_IFMT)
	require.EqualValues(t, unix.S_IFREG|0o600, st("x").Mode, "a With without a mode leaves the File's")
	value := make([]byte, 10)
	n, err := unix.Lgetxattr(root+"/x", "user.k", value)
	require.NoError(t, err)
	require.Equal(t, "v", string(value[:n]))
	target, err := os.Readlink(root + "/d/deeper/l")
	require.NoError(t, err)
	require.Equal(t, "../f", target)
	data, err := os.ReadFile(root + "/d/h")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

func TestHostileTwiceIsEqual(t *testing.T) {
	base := TempDir(t)
	opt := HostileOptions{Entries: 300, Depth: 60, SparseSize: 1 << 30}
	refused := Hostile(t, base+"/a", opt)
	require.Equal(t, refused, Hostile(t, base+"/b", opt))
	ignore := CompareOptions{Ignore: AspectMtime | AspectDirMtime}
	require.Empty(t, Compare(t.Context(), base+"/a", base+"/b", ignore))

	entries := func(dir string) int {
		names, err := os.ReadDir(base + "/a/" + dir)
		require.NoError(t, err)
		return len(names)
	}
	require.Equal(t, 300, entries("many"))
	if runtime.GOOS == "linux" {
		require.Equal(t, len(hostileNames()), entries("names"))
		require.LessOrEqual(t, len(refused), 12, "a file system of Linux holds nearly all of it: %q", refused)
	}
	require.Equal(t, 60, strings.Count(deepest(t, base+"/a/deep"), "/d")+1)
	require.Greater(t, len(deepest(t, base+"/a/"+BeyondPathMax)), unix.PathMax)
}

// deepest follows the only directory in each directory and returns the path below root.
func deepest(t *testing.T, root string) string {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	path := ""
	for {
		names, err := readNames(fd)
		require.NoError(t, err)
		require.Len(t, names, 1)
		if names[0] == "bottom" {
			require.NoError(t, unix.Close(fd))
			return path
		}
		next, err := openDir(fd, names[0])
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		path, fd = path+"/"+names[0], next
	}
}

func TestRSyncCompare(t *testing.T) {
	a, b := twins(t, sample())
	require.Empty(t, RSyncCompare(t, a, b))
	require.NoError(t, os.Chmod(b+"/file", 0o600))
	require.Contains(t, strings.Join(RSyncCompare(t, a, b), "\n"), " file")
	require.Empty(t, RSyncCompare(t, a, b, "/file"))
}

func TestRandomTrees(t *testing.T) {
	require.Equal(t, Random(1, 200, true), Random(1, 200, true))
	require.NotEqual(t, Random(1, 200, true), Random(2, 200, true))
	for seed := range uint64(3) {
		tree := Random(seed, 100, true)
		n := count(tree)
		require.LessOrEqual(t, n, 100)
		require.Greater(t, n, 75, "names rarely collide")
		base := TempDir(t)
		Write(t, base+"/a", tree)
		Write(t, base+"/b", tree)
		// Hard links, and the root, get no time of their own.
		lines := Compare(t.Context(), base+"/a", base+"/b", CompareOptions{})
		for _, line := range lines {
			require.Contains(t, line, ": mtime ")
		}
		other := Random(seed+100, 50, true)
		Write(t, base+"/c", other)
		require.NotEmpty(t, Compare(t.Context(), base+"/a", base+"/c", CompareOptions{Ignore: AspectMtime | AspectDirMtime}))
	}
}

func count(d Dir) int {
	n := 0
	for _, e := range d {
		n++
		bare, _ := attributes(e)
		if sub, ok := bare.(Dir); ok {
			n += count(sub)
		}
	}
	return n
}

func TestUnlockMakesATreeRemovable(t *testing.T) {
	root := TempDir(t) + "/tree"
	tree := Dir{"none": With{Of: Dir{"f": File{}}, Mode: ModeNone}, "fixed": With{Of: Dir{"f": File{}}, Mode: 0o500}}
	if os.Geteuid() == 0 && runtime.GOOS == "linux" {
		tree["immutable"] = With{Of: Dir{"append": With{Of: File{}, Flags: FlagAppend}}, Flags: FlagImmutable}
	}
	Write(t, root, tree)
	if os.Geteuid() != 0 || tree["immutable"] != nil {
		require.Error(t, os.RemoveAll(root))
	}
	require.NoError(t, Unlock(root))
	require.NoError(t, os.RemoveAll(root))
	require.NoError(t, Unlock(root), "what is gone needs no unlocking")
}

// recorder stands in for a test: it keeps cleanups and errors.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestLeaksAreFound(t *testing.T) {
	before := takeInventory()
	require.Empty(t, before.leaks(0))

	release := make(chan struct{})
	ended := make(chan struct{})
	go func() { <-release; close(ended) }()
	f, err := os.Open("testkit_test.go")
	require.NoError(t, err)
	found := before.leaks(0)
	require.Len(t, found, 2)
	require.Contains(t, found[0], "TestLeaksAreFound", "the stack names the cause")
	require.Contains(t, found[1], "descriptor ")
	if runtime.GOOS == "linux" {
		require.Contains(t, found[1], "testkit_test.go")
	}
	close(release)
	<-ended
	require.NoError(t, f.Close())
	require.Empty(t, before.leaks(time.Minute))
}

func TestNoLeaksLooksAtTheEnd(t *testing.T) {
	r := &recorder{TB: t}
	noLeaks(r, 0)
	f, err := os.Open("testkit_test.go")
	require.NoError(t, err)
	require.Len(t, r.cleanups, 1)
	r.cleanups[0]()
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "leaked descriptor ")
	require.NoError(t, f.Close())
	r.cleanups[0]()
	require.Len(t, r.errors, 1, "nothing more once it is closed")
}
