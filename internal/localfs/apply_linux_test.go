package localfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestApplyTakesOffWhatTheNodeDoesNotHave(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	if err := unix.Setxattr(path+"/f", "user.old", []byte("x"), 0); err != nil {
		t.Skipf("no user attributes here: %v", err)
	}
	n := nodeOf(t, d, "f")
	n.Xattrs = []tree.Xattr{{Name: "user.new", Value: []byte("y")}}
	n.Mode = 0o640
	require.Empty(t, d.Apply("f", n, ApplyOptions{}))
	require.Equal(t, n, nodeOf(t, d, "f"))

	// A default ACL of the target directory must not widen what is restored into it.
	if err := unix.Setxattr(path, "system.posix_acl_default", posixACL(1234), 0); err != nil {
		t.Skipf("no ACLs here: %v", err)
	}
	for _, name := range []string{"f2", "d2"} {
		n := owned(name, tree.File, 0o640)
		if name == "d2" {
			n.Type = tree.Dir
		}
		create(t, d, n)
		inherited, err := d.Xattrs(name, n.Type)
		require.NoError(t, err)
		require.NotEmpty(t, inherited)
		require.Empty(t, d.Apply(name, n, ApplyOptions{}))
		got := nodeOf(t, d, name)
		require.Empty(t, got.Xattrs)
		require.EqualValues(t, 0o640, got.Mode)
	}
}

func TestApplyOptionsLeaveThingsOut(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	before := nodeOf(t, d, "f")
	n := &tree.Node{
		Type: tree.File, Mode: 0o7, UID: 77, GID: 77, ModTime: tree.Time{Sec: 7}, Access: &tree.Time{Sec: 7},
		Xattrs: []tree.Xattr{{Name: "user.x", Value: []byte("x")}}, Flags: flagNoDump,
	}
	all := ApplyOptions{SkipOwner: true, SkipMode: true, SkipXattrs: true, SkipTimes: true, SkipFlags: true}
	require.Empty(t, d.Apply("f", n, all))
	require.Equal(t, before, nodeOf(t, d, "f"))
	all.SkipTimes = false
	require.Empty(t, d.Apply("f", n, all))
	before.ModTime, before.Access = n.ModTime, n.Access
	require.Equal(t, before, nodeOf(t, d, "f"))
	all.SkipFlags, all.ForeignFlags = false, true
	ps := d.Apply("f", n, all)
	require.Len(t, ps, 1)
	require.Equal(t, "flags", ps[0].What)
	require.ErrorIs(t, ps[0].Err, ErrNotKept)
	require.Equal(t, before, nodeOf(t, d, "f"))
}

func TestApplyOnTheDirectoryItself(t *testing.T) {
	d, path := openTemp(t)
	n := nodeOf(t, d, ".")
	n.Mode, n.ModTime = 0o1750, tree.Time{Sec: 99, Nsec: 1}
	require.Empty(t, d.Apply(".", n, ApplyOptions{}))
	require.Equal(t, n, nodeOf(t, d, "."))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|os.ModeSticky|0o750, info.Mode())
}

func TestApplyNeverFollowsASymlink(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/victim", "")
	before := nodeOf(t, d, "victim")
	require.NoError(t, d.Symlink("victim", "link"))
	n := owned("link", tree.Symlink, 0o7777)
	require.Empty(t, d.Apply("link", n, ApplyOptions{}))
	file := *n
	file.Type = tree.File
	ps := d.Apply("link", &file, ApplyOptions{})
	require.Len(t, ps, 1, "another type than the node: nothing is set")
	// Below Apply's own check, each call by itself.
	o := d.object("link")
	require.Error(t, o.chmod(0o7777))
	require.NoError(t, o.chown(os.Geteuid(), os.Getegid()))
	require.Error(t, o.setXattr("user.x", nil))
	o.host.noXattrAt.Store(true)
	require.Error(t, o.setXattr("user.x", nil))
	require.Error(t, o.removeXattr("user.x"))
	_, err := o.openSelf()
	require.Error(t, err)
	require.Equal(t, before, nodeOf(t, d, "victim"))
}

func TestChmodWithoutTheNewCall(t *testing.T) {
	d, path := openTemp(t)
	makeOneOfEach(t, d, path)
	for _, name := range listing(t, d, nil) {
		var st Stat
		if name == "symlink" {
			continue
		}
		require.NoError(t, chmodPinned(d, name, 0o421))
		require.NoError(t, d.Lstat(name, &st))
		require.EqualValues(t, 0o421, st.Mode, name)
	}
	withoutProc(d.host)
	require.ErrorIs(t, chmodPinned(d, "dir", 0o777), ErrNoProc)
}

func chmodPinned(d *Dir, name string, mode uint32) error {
	e, err := d.Pin(name, tree.Dir)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.object.chmod(mode)
}

func TestXattrsWithoutProc(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	withoutProc(d.host)
	if _, err := d.object("f").list(nil); err == nil && !d.host.noXattrAt.Load() {
		_, err := d.Xattrs("f", tree.File)
		require.NoError(t, err, "the new calls do without")
	}
	d.host.noXattrAt.Store(true)
	_, err := d.Xattrs("f", tree.File)
	require.ErrorIs(t, err, ErrNoProc)
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.Xattrs()
	require.NoError(t, err, "an open file needs neither")
}

func TestXattrsWhereThereAreNone(t *testing.T) {
	d := openAt(t, "/proc/self")
	for _, noAt := range []bool{false, true} {
		d.host.noXattrAt.Store(noAt)
		x, err := d.Xattrs("status", tree.File)
		require.NoError(t, err)
		require.Empty(t, x)
	}
	flags, err := d.Flags("status", tree.File)
	require.NoError(t, err)
	require.Zero(t, flags)
	err = changeFlags(d.fd, flagNoDump, keptFlags)
	require.ErrorIs(t, err, ErrNotKept)
	require.True(t, Unsupported(err))
}

func TestManyAndLargeXattrs(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	var want []tree.Xattr
	for i := range 30 {
		name := fmt.Sprintf("user.%02d %s", i, strings.Repeat("n", 40))
		x := tree.Xattr{Name: name, Value: bytes.Repeat([]byte{byte(i)}, i*3)}
		if err := unix.Setxattr(path+"/f", x.Name, x.Value, 0); err != nil {
			t.Skipf("no user attributes of this size here: %v", err)
		}
		want = append(want, x)
	}
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	for _, noAt := range []bool{false, true} {
		d.host.noXattrAt.Store(noAt)
		got, err := d.Xattrs("f", tree.File)
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = f.Xattrs()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestUnprivilegedRestoreReportsWhatIsMissing(t *testing.T) {
	if !asNobody(t) {
		return
	}
	d, path := openTemp(t)
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	write(t, path+"/f", "")
	n := &tree.Node{
		Type: tree.File, Mode: 0o6755, UID: 0, GID: gid, ModTime: tree.Time{Sec: 1_300_000_000, Nsec: 7},
		Xattrs: []tree.Xattr{{Name: "security.capability", Value: fileCapability()}, {Name: "trusted.x", Value: []byte("x")}},
		Flags:  flagImmutable | flagNoAtime,
	}
	ps := d.Apply("f", n, ApplyOptions{})
	var what []string
	for _, p := range ps {
		what = append(what, p.What)
		require.NotEmpty(t, p.String())
	}
	require.Subset(t, what, []string{"owner", "mode", "xattr security.capability", "xattr trusted.x", "flags"})
	var st Stat
	require.NoError(t, d.Lstat("f", &st))
	require.EqualValues(t, 0o2755, st.Mode, "no setuid without its owner, setgid with its group")
	require.Equal(t, []uint32{uid, gid}, []uint32{st.UID, st.GID})
	require.Equal(t, n.ModTime, st.Mtime, "the rest is set")
	if flags, err := d.Flags("f", tree.File); err == nil && flags != 0 {
		require.EqualValues(t, flagNoAtime, flags)
	}

	// Read-only files, new and already there, get their attributes all the same.
	for _, name := range []string{"new", "existing"} {
		n := &tree.Node{
			Name: name, Type: tree.File, Mode: 0o400, UID: uid, GID: gid, ModTime: tree.Time{Sec: 1},
			Xattrs: []tree.Xattr{{Name: "user.x", Value: []byte("x")}},
		}
		create(t, d, n)
		if name == "existing" {
			require.NoError(t, os.Chmod(path+"/existing", 0o400))
		}
		ps := d.Apply(name, n, ApplyOptions{})
		if len(ps) > 0 && Unsupported(ps[0].Err) {
			t.Skipf("no user attributes here: %v", ps)
		}
		require.Empty(t, ps)
		require.NoError(t, d.Lstat(name, &st))
		require.EqualValues(t, 0o400, st.Mode)
	}
	w, err := d.CreateFile("unreadable")
	require.NoError(t, err)
	require.Empty(t, w.SetMeta(&tree.Node{Type: tree.File, UID: uid, GID: gid, Flags: flagNoAtime}, ApplyOptions{}))
	require.NoError(t, w.Close())
}

func TestTimesOverTheWholeRange(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	n := nodeOf(t, d, "f")
	for _, at := range []tree.Time{
		{}, {Sec: -1, Nsec: 999_999_999}, {Sec: 1<<31 - 1, Nsec: 1}, {Sec: 1 << 31}, {Sec: 1 << 33, Nsec: 2},
	} {
		if at.Sec > 1<<31-1 && strconv.IntSize == 32 {
			continue // reported below
		}
		n.ModTime, n.Access = at, &at
		require.Empty(t, d.Apply("f", n, ApplyOptions{}))
		require.Equal(t, n, nodeOf(t, d, "f"))
	}
	// A value that the file system cannot store is reported.
	n.ModTime = tree.Time{Sec: 1 << 60}
	ps := d.Apply("f", n, ApplyOptions{})
	var st Stat
	require.NoError(t, d.Lstat("f", &st))
	if st.Mtime == n.ModTime {
		require.Empty(t, ps)
	} else {
		require.Len(t, ps, 1)
		require.Equal(t, "times", ps[0].What)
	}
	// Without an access time in the node it is left alone.
	n.ModTime, n.Access = tree.Time{Sec: 5}, nil
	before := st.Atime
	require.Empty(t, d.Apply("f", n, ApplyOptions{}))
	require.NoError(t, d.Lstat("f", &st))
	require.Equal(t, before, st.Atime)
}

func TestChangeFlagsLeavesOthersAlone(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "")
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	if err := changeFlags(f.fd, flagNoDump|flagSync, keptFlags); err != nil {
		t.Skipf("no flags here: %v", err)
	}
	all, err := getFlags(f.fd)
	require.NoError(t, err)
	require.EqualValues(t, flagNoDump|flagSync, all&keptFlags)
	require.NoError(t, changeFlags(f.fd, flagNoAtime, flagNoAtime|flagSync))
	got, err := f.Flags()
	require.NoError(t, err)
	require.EqualValues(t, flagNoDump|flagNoAtime, got)
	now, err := getFlags(f.fd)
	require.NoError(t, err)
	require.Equal(t, all&^keptFlags, now&^keptFlags)
}

func TestKeptFlagsAreThoseDocumented(t *testing.T) {
	require.Contains(t, readFile(t, "../../docs/metadata.md"), fmt.Sprintf("mask `%#x`", keptFlags))
}
