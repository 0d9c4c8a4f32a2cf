package localfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestOpenRefusesWhatIsNoDirectory(t *testing.T) {
	d, path := openTemp(t)
	makeOneOfEach(t, d, path)
	require.NoError(t, d.Symlink("dir", "link to dir"))
	for _, name := range listing(t, d, nil) {
		child, err := d.Open(name)
		if name == "dir" {
			require.NoError(t, err)
			child.Release()
			continue
		}
		require.ErrorIs(t, err, ErrNotDir, name)
	}
}

// Another object takes the name of a file between its stat and its open.
func TestOpenFileOfSwappedFile(t *testing.T) {
	swaps := map[string]func(d *Dir) error{
		"symlink to a file": func(d *Dir) error { return d.Symlink("other", "f") },
		"dangling symlink":  func(d *Dir) error { return d.Symlink("nothing", "f") },
		"fifo":              func(d *Dir) error { return d.Mknod("f", tree.Fifo, 0o666, 0) },
		"socket":            func(d *Dir) error { return d.Mknod("f", tree.Socket, 0o666, 0) },
		"directory":         func(d *Dir) error { return d.Mkdir("f", 0o777) },
	}
	if os.Geteuid() == 0 {
		swaps["char device"] = func(d *Dir) error { return d.Mknod("f", tree.CharDevice, 0o666, device(1, 3)) }
		swaps["device without driver"] = func(d *Dir) error { return d.Mknod("f", tree.CharDevice, 0o666, device(245, 7)) }
		swaps["block device"] = func(d *Dir) error { return d.Mknod("f", tree.BlockDevice, 0o666, device(7, 250)) }
	}
	for what, swap := range swaps {
		for _, pinned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pinned %v", what, pinned), func(t *testing.T) {
				d, path := openTemp(t)
				d.host.privileged = pinned
				write(t, path+"/other", "secret")
				write(t, path+"/f", "content")
				var st Stat
				require.NoError(t, d.Lstat("f", &st))
				require.Equal(t, tree.File, st.Type)
				require.NoError(t, d.Remove("f", false))
				require.NoError(t, swap(d))
				f, err := d.OpenFile("f")
				require.Nil(t, f)
				require.ErrorIs(t, err, ErrNotRegular)
			})
		}
	}
}

func TestDeviceIsNotEvenOpened(t *testing.T) {
	needRoot(t)
	d, _ := openTemp(t)
	if !d.mayHoldDevices() {
		t.Skip("the temporary directory is on a mount without devices")
	}
	// Opening a device that has no driver gives an errno. Not seeing one is the proof that nothing was opened.
	require.NoError(t, d.Mknod("f", tree.CharDevice, 0o666, device(245, 7)))
	var errno unix.Errno
	_, err := d.OpenFile("f")
	require.ErrorIs(t, err, ErrNotRegular)
	require.False(t, errors.As(err, &errno), "%v", err)
	_, err = d.Flags("f", tree.File)
	require.ErrorIs(t, err, ErrNotRegular)
	require.False(t, errors.As(err, &errno), "%v", err)
	d.devices.Store(devicesNever)
	_, err = d.OpenFile("f")
	require.ErrorIs(t, err, ErrNotRegular)
	require.True(t, errors.As(err, &errno), "the direct way does open it: the test above means something")
}

func TestDirectoryMovedAwayIsStillTheSame(t *testing.T) {
	parent, path := openTemp(t)
	require.NoError(t, parent.Mkdir("real", 0o755))
	require.NoError(t, parent.Mkdir("evil", 0o755))
	write(t, path+"/real/f", "mine")
	write(t, path+"/evil/f", "other")
	d, err := parent.Open("real")
	require.NoError(t, err)
	defer d.Release()
	require.NoError(t, os.Rename(path+"/real", path+"/moved"))
	require.NoError(t, os.Symlink("evil", path+"/real"))
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
}

func TestReadAtAndRead(t *testing.T) {
	d, path := openTemp(t)
	content := make([]byte, 200_000)
	for i := range content {
		content[i] = byte(rand.N(256))
	}
	write(t, path+"/f", string(content))
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	require.EqualValues(t, len(content), f.Opened().Size)
	got := make([]byte, 1000)
	n, err := f.ReadAt(got, 123_456)
	require.NoError(t, err)
	require.Equal(t, content[123_456:124_456], got[:n])
	n, err = f.ReadAt(got, int64(len(content))-10)
	require.Equal(t, io.EOF, err)
	require.Equal(t, content[len(content)-10:], got[:n])
	all, err := io.ReadAll(f)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, all))
	st, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, *f.Opened(), st)
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Close(), unix.EBADF)
}

func TestReadingLeavesTheAccessTime(t *testing.T) {
	d, path := openTemp(t)
	require.NoError(t, d.Mkdir("dir", 0o755))
	write(t, path+"/dir/f", "content")
	old := time.Unix(1_000_000_000, 0)
	for _, name := range []string{"/dir/f", "/dir"} {
		require.NoError(t, os.Chtimes(path+name, old, time.Unix(1_500_000_000, 0))) // relatime would update it
	}
	child, err := d.Open("dir")
	require.NoError(t, err)
	defer child.Release()
	require.Equal(t, []string{"f"}, listing(t, child, nil))
	f, err := child.OpenFile("f")
	require.NoError(t, err)
	_, err = io.ReadAll(f)
	require.NoError(t, err)
	st, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, old.Unix(), st.Atime.Sec)
	st, err = child.Fstat()
	require.NoError(t, err)
	require.EqualValues(t, old.Unix(), st.Atime.Sec)
	require.NoError(t, f.Close())
}

func TestNoAtimeIsGivenUpWhereItIsRefused(t *testing.T) {
	if !asNobody(t) {
		return
	}
	d := openAt(t, "/etc") // root's files, readable for all
	require.False(t, d.noAtime.Load())
	f, err := d.OpenFile("passwd")
	require.NoError(t, err)
	require.True(t, d.noAtime.Load())
	require.NoError(t, f.Close())
	own, path := openTemp(t)
	write(t, path+"/f", "")
	f, err = own.OpenFile("f")
	require.NoError(t, err)
	require.False(t, own.noAtime.Load())
	require.NoError(t, f.Close())
}

func TestFileWithALeaseIsOpenedAfterAll(t *testing.T) {
	d, path := openTemp(t)
	d.host.privileged = false
	write(t, path+"/f", "content")
	fd, err := unix.Open(path+"/f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGIO)
	defer signal.Stop(asked)
	closed := make(chan error)
	go func() {
		<-asked // the kernel asks the holder to let go
		closed <- unix.Close(fd)
	}()
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.NoError(t, f.Close())
}

func TestReadlink(t *testing.T) {
	d, path := openTemp(t)
	x, y, z := strings.Repeat("x", 255), strings.Repeat("y", 256), strings.Repeat("z/", 2047)
	for i, target := range []string{"a", "../\xff\xfe", x, y, z} {
		name := fmt.Sprint(i)
		require.NoError(t, d.Symlink(target, name))
		got, err := d.Readlink(name)
		require.NoError(t, err)
		require.Equal(t, target, got)
	}
	write(t, path+"/file", "")
	_, err := d.Readlink("file")
	require.ErrorIs(t, err, unix.EINVAL)
}

type extent struct {
	off, n uint64
	hole   bool
}

func extentsOf(t *testing.T, d *Dir, name string, size uint64) []extent {
	t.Helper()
	f, err := d.OpenFile(name)
	require.NoError(t, err)
	defer f.Close()
	var list []extent
	require.NoError(t, f.Extents(0, size, func(off, n uint64, hole bool) error {
		list = append(list, extent{off, n, hole})
		return nil
	}))
	for _, e := range list { // from the middle, its rest comes first
		var got []extent
		require.NoError(t, f.Extents(e.off+e.n/2, size, func(off, n uint64, hole bool) error {
			got = append(got, extent{off, n, hole})
			return nil
		}))
		require.Equal(t, extent{e.off + e.n/2, e.n - e.n/2, e.hole}, got[0])
	}
	return list
}

func TestExtentsCoverTheFileAndHolesAreZero(t *testing.T) {
	d, path := openTemp(t)
	const block, blocks = 64 << 10, 24
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 12 {
		name := fmt.Sprintf("f%d", round)
		w, err := d.CreateFile(name)
		require.NoError(t, err)
		size := int64(blocks*block) + random.Int64N(block)
		require.NoError(t, w.Truncate(size))
		for i := range int64(blocks) {
			if random.IntN(3) == 0 {
				_, err := w.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, block), i*block)
				require.NoError(t, err)
			}
		}
		require.NoError(t, w.Close())
		content, err := os.ReadFile(path + "/" + name)
		require.NoError(t, err)
		end, holes := uint64(0), uint64(0)
		for _, e := range extentsOf(t, d, name, uint64(size)) {
			require.Equal(t, end, e.off)
			require.NotZero(t, e.n)
			end += e.n
			if e.hole {
				holes += e.n
				require.Zero(t, bytes.Trim(content[e.off:end], "\x00"), "data in a hole")
			}
		}
		require.EqualValues(t, size, end)
		require.NotZero(t, holes, "the temporary directory keeps holes")
	}
}

func TestExtentsAtTheEdges(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/empty", "")
	require.Empty(t, extentsOf(t, d, "empty", 0))
	write(t, path+"/data", strings.Repeat("x", 5000))
	require.Equal(t, []extent{{0, 5000, false}}, extentsOf(t, d, "data", 5000))
	require.Equal(t, []extent{{0, 100, false}}, extentsOf(t, d, "data", 100), "only what was asked for")
	write(t, path+"/hole", "")
	require.NoError(t, os.Truncate(path+"/hole", 10<<30))
	require.Equal(t, []extent{{0, 10 << 30, true}}, extentsOf(t, d, "hole", 10<<30))

	stop := errors.New("enough")
	f, err := d.OpenFile("data")
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, stop, f.Extents(0, 5000, func(uint64, uint64, bool) error { return stop }))

	proc := openAt(t, "/proc/self")
	require.Equal(t, []extent{{0, 10, false}}, extentsOf(t, proc, "stat", 10), "a file system that does not report holes")
}

func TestReadWholeNoticesGrowth(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/f", []byte("0123456789"), 0o600))
	d, err := OpenDir(dir)
	require.NoError(t, err)
	defer d.Release()
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	p := make([]byte, 32)
	for size, want := range map[uint64]int{10: 10, 4: 5, 20: 10, 0: 1} {
		n, err := f.ReadWhole(p, size)
		require.NoError(t, err)
		require.Equal(t, want, n, "expected %d", size)
		require.Equal(t, "0123456789"[:n], string(p[:n]))
	}
}

func TestFactsAreAllThatIsKnown(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "content")
	if err := unix.Setxattr(path+"/f", "user.x", []byte("value"), 0); err != nil {
		t.Skip(err)
	}
	w, err := openWriter(d, "f")
	require.NoError(t, err)
	flagged := changeFlags(w.fd, flagNoDump, flagNoDump) == nil
	require.NoError(t, w.Close())
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	all, err := f.Facts()
	require.NoError(t, err)
	require.NoError(t, errors.Join(all.XattrErr, all.FlagErr))
	require.Equal(t, *f.Opened(), all.Stat)
	require.Equal(t, []tree.Xattr{{Name: "user.x", Value: []byte("value")}}, all.Xattrs)
	require.Equal(t, flagged, all.Flags == flagNoDump)
	require.NoError(t, os.Remove(path+"/f"))
	all, err = f.Facts()
	require.NoError(t, err)
	require.Zero(t, all.Links, "asked again each time")
	require.NoError(t, f.Close())
	_, err = f.Facts()
	require.ErrorIs(t, err, unix.EBADF)

	write(t, path+"/plain", "")
	f, err = d.OpenFile("plain")
	require.NoError(t, err)
	defer f.Close()
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = f.Facts() }))
}
