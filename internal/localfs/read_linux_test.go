package localfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

func TestEntriesYieldsEveryNameOnce(t *testing.T) {
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
			require.Equal(t, timeOf(unix.Timespec(raw.Mtim)), st.Mtime)
			require.Equal(t, timeOf(unix.Timespec(raw.Ctim)), st.Ctime)
			require.Equal(t, timeOf(unix.Timespec(raw.Atim)), st.Atime)
			if old {
				require.Equal(t, int64(UnknownTime), st.Birth.Sec)
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
			"Mknod":      d.Mknod(name, tree.Fifo, 0o600, 0),
			"Remove":     d.Remove(name, false),
			"Rename old": d.Rename(name, "y"),
			"Rename new": d.Rename("x", name),
			"Unprotect":  d.Unprotect(name),
			"Apply":      d.Apply(name, n, ApplyOptions{})[0].Err,
		}
		_, calls["Open"] = d.Open(name)
		_, calls["OpenFile"] = d.OpenFile(name)
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
	require.Empty(t, w.SetMeta(owned(name, tree.File, 0o640), ApplyOptions{}))
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
			if w, err := openWriter(d, name); err == nil {
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
			_ = chmodPinned(d, name, 0o700)
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
