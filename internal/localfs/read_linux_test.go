package localfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestRetryRepeatsAfterEINTROnly(t *testing.T) {
	for _, end := range []error{nil, unix.EIO, unix.EAGAIN} {
		calls := 0
		err := retry(func() error {
			if calls++; calls <= 3 {
				return unix.EINTR
			}
			return end
		})
		require.Equal(t, end, err)
		require.Equal(t, 4, calls)
	}
}

// hostileNames are names that a file system takes and programs stumble over.
func hostileNames() []string {
	names := []string{"a", "...", ".hidden", "-rf", "new\nline", "tab\t", "\xff\xfe not utf-8", "\x01", "\\", "日本", " "}
	return append(names, strings.Repeat("n", 255), strings.Repeat("\x80", 255))
}

func listing(t *testing.T, d *Dir, buf []byte) []string {
	t.Helper()
	var names []string
	require.NoError(t, d.Entries(buf, func(name []byte, _ tree.Type, _ uint64) error {
		names = append(names, string(name))
		return nil
	}))
	sort.Strings(names)
	return names
}

func TestEntriesTellsEveryNameOnce(t *testing.T) {
	d, path := openTemp(t)
	want := hostileNames()
	for i := range 500 {
		want = append(want, fmt.Sprintf("entry with a name of some length %d", i))
	}
	for _, name := range want {
		write(t, path+"/"+name, "")
	}
	sort.Strings(want)
	for _, size := range []int{0, minDirBuf, 1 << 16} {
		require.Equal(t, want, listing(t, d, make([]byte, size)), "buffer of %d", size)
	}
}

func TestEntriesTypesAndInodesAgreeWithLstat(t *testing.T) {
	d, path := openTemp(t)
	makeOneOfEach(t, d, path)
	seen := map[tree.Type]bool{}
	require.NoError(t, d.Entries(nil, func(name []byte, typ tree.Type, ino uint64) error {
		var st Stat
		require.NoError(t, d.Lstat(string(name), &st))
		require.Equal(t, st.Type, typ)
		require.Equal(t, st.Ino, ino)
		seen[typ] = true
		return nil
	}))
	require.GreaterOrEqual(t, len(seen), 5)
}

// makeOneOfEach makes an entry of every type that we may make, named after it.
func makeOneOfEach(t *testing.T, d *Dir, path string) {
	t.Helper()
	write(t, filepath.Join(path, "file"), "content")
	require.NoError(t, d.Mkdir("dir", 0o755))
	require.NoError(t, d.Symlink("no/such target \xff", "symlink"))
	require.NoError(t, d.Mknod("fifo", tree.Fifo, 0o644, 0))
	require.NoError(t, d.Mknod("socket", tree.Socket, 0o644, 0))
	if os.Geteuid() == 0 {
		require.NoError(t, d.Mknod("char", tree.CharDevice, 0o600, device(1, 3)))
		require.NoError(t, d.Mknod("block", tree.BlockDevice, 0o600, device(7, 200)))
	}
}

func TestEntriesStopsAtErrorOfYield(t *testing.T) {
	d, path := openTemp(t)
	for i := range 20 {
		write(t, fmt.Sprintf("%s/%d", path, i), "")
	}
	stop := errors.New("enough")
	calls := 0
	err := d.Entries(nil, func([]byte, tree.Type, uint64) error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	})
	require.Equal(t, stop, err)
	require.Equal(t, 3, calls)
	require.Len(t, listing(t, d, nil), 20, "the next walk starts at the first entry")
}

func TestEntriesOfRemovedDirectoryAreNone(t *testing.T) {
	parent, path := openTemp(t)
	require.NoError(t, parent.Mkdir("sub", 0o755))
	d, err := parent.Open("sub")
	require.NoError(t, err)
	defer d.Release()
	require.NoError(t, os.Remove(path+"/sub"))
	require.Empty(t, listing(t, d, nil))
}

func TestLstatAgreesWithTheStandardLibrary(t *testing.T) {
	d, path := openTemp(t)
	makeOneOfEach(t, d, path)
	require.NoError(t, os.Chmod(path+"/file", 0o754|os.ModeSetuid|os.ModeSticky))
	mtime := time.Unix(-12345, 678_901_234)
	require.NoError(t, os.Chtimes(path+"/file", time.Unix(1<<32, 5), mtime))
	for _, old := range []bool{false, true} {
		d.host.noStatx.Store(old)
		for _, name := range listing(t, d, nil) {
			var st Stat
			require.NoError(t, d.Lstat(name, &st))
			info, err := os.Lstat(path + "/" + name)
			require.NoError(t, err)
			raw := info.Sys().(*syscall.Stat_t)
			require.Equal(t, raw.Ino, st.Ino)
			require.Equal(t, uint64(raw.Nlink), st.Links)
			require.Equal(t, uint64(raw.Size), st.Size)
			require.Equal(t, uint64(raw.Blocks), st.Blocks512)
			require.Equal(t, raw.Mode&0o7777, st.Mode)
			require.Equal(t, []uint32{raw.Uid, raw.Gid}, []uint32{st.UID, st.GID})
			require.Equal(t, device(unix.Major(raw.Dev), unix.Minor(raw.Dev)), st.Dev)
			require.Equal(t, device(unix.Major(raw.Rdev), unix.Minor(raw.Rdev)), st.Rdev)
			require.Equal(t, tree.Time{Sec: raw.Mtim.Sec, Nsec: uint32(raw.Mtim.Nsec)}, st.Mtime)
			require.Equal(t, tree.Time{Sec: raw.Ctim.Sec, Nsec: uint32(raw.Ctim.Nsec)}, st.Ctime)
			require.Equal(t, tree.Time{Sec: raw.Atim.Sec, Nsec: uint32(raw.Atim.Nsec)}, st.Atime)
			if old {
				require.EqualValues(t, UnknownTime, st.Birth.Sec)
			}
		}
	}
	var st, self Stat
	require.NoError(t, d.Lstat("file", &st))
	require.Equal(t, tree.Time{Sec: -12345, Nsec: 678_901_234}, st.Mtime)
	require.NoError(t, d.Lstat(".", &self))
	fst, err := d.Fstat()
	require.NoError(t, err)
	require.Equal(t, fst.Ino, self.Ino)
	require.Equal(t, tree.Dir, fst.Type)
}

func TestNamesThatWouldLeaveTheDirectoryAreRefused(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/x", "x")
	var st Stat
	for _, name := range []string{"", "..", "a/b", "/etc", "x/", "x\x00y"} {
		n := &tree.Node{Type: tree.File}
		calls := map[string]error{
			"Lstat":      d.Lstat(name, &st),
			"Mkdir":      d.Mkdir(name, 0o700),
			"Symlink":    d.Symlink("t", name),
			"Link old":   d.Link(d, name, "y"),
			"Link new":   d.Link(d, "x", name),
			"Mknod":      d.Mknod(name, tree.Fifo, 0o600, 0),
			"Remove":     d.Remove(name, false),
			"Rename old": d.Rename(name, "y"),
			"Rename new": d.Rename("x", name),
			"Unprotect":  d.Unprotect(name),
			"Apply":      d.Apply(name, n, ApplyOptions{})[0].Err,
		}
		_, calls["Open"] = d.Open(name)
		_, calls["OpenFile"] = d.OpenFile(name)
		_, calls["OpenWriter"] = d.OpenWriter(name)
		_, calls["CreateFile"] = d.CreateFile(name)
		_, calls["Readlink"] = d.Readlink(name)
		_, calls["Xattrs"] = d.Xattrs(name, tree.File)
		_, calls["Flags"] = d.Flags(name, tree.File)
		for call, err := range calls {
			require.ErrorIs(t, err, ErrBadName, "%s(%q)", call, name)
		}
	}
	require.ErrorIs(t, d.Remove(".", true), ErrBadName)
	require.Equal(t, []string{"x"}, listing(t, d, nil))
}

func TestVanishedEntries(t *testing.T) {
	d, _ := openTemp(t)
	var st Stat
	require.ErrorIs(t, d.Lstat("gone", &st), ErrVanished)
	_, err := d.Open("gone")
	require.ErrorIs(t, err, ErrVanished)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = d.Readlink("gone")
	require.ErrorIs(t, err, ErrVanished)
	for _, noAt := range []bool{false, true} {
		d.host.noXattrAt.Store(noAt)
		_, err = d.Xattrs("gone", tree.File)
		require.ErrorIs(t, err, ErrVanished)
	}
	for _, privileged := range []bool{false, true} {
		d.host.privileged = privileged
		d.devices.Store(devicesUnknown)
		_, err = d.OpenFile("gone")
		require.ErrorIs(t, err, ErrVanished)
	}
	_, err = OpenDir("/no/such/directory")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotErrorIs(t, err, ErrVanished)
}

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

// A file is looked at, then another object takes its name, then it is opened.
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
				w, err := d.OpenWriter("f")
				require.Nil(t, w)
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
	_, err = d.openRead("f", unix.O_NONBLOCK|unix.O_CLOEXEC)
	require.Equal(t, unix.EAGAIN, err)
	require.NoError(t, unix.Close(fd)) // the holder lets go, as it is asked to
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var st Stat
	pinned, err := d.openPinned("f", unix.O_RDONLY, &st)
	require.NoError(t, err)
	require.NoError(t, unix.Close(pinned))
}

func TestReadlink(t *testing.T) {
	d, path := openTemp(t)
	for i, target := range []string{"a", "../\xff\xfe", strings.Repeat("x", 255), strings.Repeat("y", 256), strings.Repeat("z/", 2047)} {
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
	require.NoError(t, f.Extents(size, func(off, n uint64, hole bool) error {
		list = append(list, extent{off, n, hole})
		return nil
	}))
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
	require.Equal(t, stop, f.Extents(5000, func(uint64, uint64, bool) error { return stop }))

	proc := openAt(t, "/proc/self")
	require.Equal(t, []extent{{0, 10, false}}, extentsOf(t, proc, "stat", 10), "a file system that cannot tell")
}

func TestPathsBeyondPathMax(t *testing.T) {
	top, path := openTemp(t)
	name := strings.Repeat("d", 255)
	d := top
	d.Retain()
	const depth = 40 // 40 x 256 bytes, where the kernel takes 4096
	for range depth {
		require.NoError(t, d.Mkdir(name, 0o755))
		next, err := d.Open(name)
		require.NoError(t, err)
		d.Release()
		d = next
	}
	w, err := d.CreateFile(name)
	require.NoError(t, err)
	_, err = w.WriteAt([]byte("deep"), 0)
	require.NoError(t, err)
	require.Empty(t, w.SetMeta(&tree.Node{Type: tree.File, Mode: 0o640, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, ApplyOptions{}))
	require.NoError(t, w.Close())
	for _, noAt := range []bool{false, true} {
		d.host.noXattrAt.Store(noAt)
		x, err := d.Xattrs(name, tree.File)
		require.NoError(t, err)
		require.Empty(t, x)
	}
	f, err := d.OpenFile(name)
	require.NoError(t, err)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "deep", string(text))
	require.NoError(t, f.Close())
	d.Release()
	require.NoError(t, os.RemoveAll(path+"/"+name))
}

func TestDirIsClosedByTheLastRelease(t *testing.T) {
	before := len(descriptors(t))
	d, err := OpenDir(t.TempDir())
	require.NoError(t, err)
	d.Retain()
	d.Release()
	_, err = d.Fstat()
	require.NoError(t, err)
	d.Release()
	require.Equal(t, before, len(descriptors(t)))
	require.Panics(t, d.Release)
}

func TestNoDescriptorIsLeaked(t *testing.T) {
	path := t.TempDir()
	exercise := func() {
		d, err := OpenDir(path)
		require.NoError(t, err)
		defer d.Release()
		makeOneOfEach(t, d, path)
		for _, name := range append(listing(t, d, nil), "gone") {
			var st Stat
			_ = d.Lstat(name, &st)
			if f, err := d.OpenFile(name); err == nil {
				f.NoteCache()
				_, _ = f.Flags()
				_, _ = f.Xattrs()
				require.NoError(t, f.Close())
			}
			if child, err := d.Open(name); err == nil {
				child.Release()
			}
			if w, err := d.OpenWriter(name); err == nil {
				_ = w.SetMeta(&tree.Node{Type: tree.File, Mode: 0o600, Flags: flagNoDump}, ApplyOptions{})
				require.NoError(t, w.Close())
			}
			_, err := d.CreateFile(name)
			if name != "gone" {
				require.Error(t, err)
			}
			_, _ = d.Xattrs(name, st.Type)
			_, _ = d.Flags(name, st.Type)
			_ = d.Unprotect(name)
			_ = d.Apply(name, &tree.Node{Type: st.Type, Mode: 0o700}, ApplyOptions{})
			o := d.object(name)
			_ = o.chmodPinned(0o700)
		}
		_, err = d.FS()
		require.NoError(t, err)
		for _, name := range listing(t, d, nil) {
			require.NoError(t, os.RemoveAll(path+"/"+name))
		}
	}
	before := descriptors(t)
	exercise()
	after := descriptors(t)
	require.Len(t, after, len(before)+1, "%v, before %v; gone was made and left open on purpose", after, before)
}

func TestNothingIsAllocatedPerEntry(t *testing.T) {
	d, path := openTemp(t)
	for i := range 200 {
		write(t, fmt.Sprintf("%s/%d", path, i), "")
	}
	buf := make([]byte, 1<<15)
	var st Stat
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if err := d.Lstat("17", &st); err != nil {
			panic(err)
		}
	}), "Lstat")
	n := 0
	count := func([]byte, tree.Type, uint64) error { n++; return nil }
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		if err := d.Entries(buf, count); err != nil {
			panic(err)
		}
	}), 1.0, "Entries of 200 entries")
	require.Zero(t, testing.AllocsPerRun(20, func() {
		if _, err := d.Xattrs("17", tree.File); err != nil {
			panic(err)
		}
	}), "Xattrs of a file that has none")
	f, err := d.OpenFile("17")
	require.NoError(t, err)
	defer f.Close()
	p := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(20, func() { _, _ = f.ReadAt(p, 0) }), "ReadAt")
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 24, 0, 8, 'a', 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 'a', 0, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, p []byte) {
		_ = eachEntry(p, func(name []byte, _ tree.Type, _ uint64) error {
			require.NotEmpty(t, name)
			require.NotEqual(t, ".", string(name))
			require.NotEqual(t, "..", string(name))
			return nil
		})
	})
}
