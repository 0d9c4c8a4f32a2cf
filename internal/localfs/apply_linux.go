package localfs

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	symlinksHaveModes = false
	omitTime          = unix.UTIME_OMIT
	noXattr           = unix.ENODATA // the attribute is not there
)

// stat fills st for the object itself.
func (o *object) stat(st *Stat) error {
	if o.name == "" {
		return fstat(o.fd, st)
	}
	return o.host.lstat(o.fd, o.name, st)
}

func (o *object) chown(uid, gid int) error {
	return retry(func() error {
		if o.name == "" {
			return unix.Fchown(o.fd, uid, gid)
		}
		return unix.Fchownat(o.fd, o.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// chmod never follows a symbolic link: the kernel's own call for that is of Linux 6.6, before it the object is pinned.
func (o *object) chmod(mode uint32) error {
	if o.name == "" {
		return retry(func() error { return unix.Fchmod(o.fd, mode) })
	}
	err := retry(func() error { return unix.Fchmodat(o.fd, o.name, mode, unix.AT_SYMLINK_NOFOLLOW) })
	if err != unix.EOPNOTSUPP && err != unix.EPERM {
		return err
	}
	if pinned := o.chmodPinned(mode); pinned == nil || err == unix.EOPNOTSUPP {
		return pinned
	}
	return err
}

func (o *object) chmodPinned(mode uint32) error {
	pin, err := openat(o.fd, o.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(pin)
	var st Stat
	if err := fstat(pin, &st); err != nil {
		return err
	}
	if st.Type == tree.Symlink {
		return unix.ELOOP
	}
	if !o.host.hasProc(o.fd) {
		return ErrNoProc
	}
	var link fdName
	return retry(func() error { return unix.Fchmodat(o.host.proc, link.of(pin), mode, 0) })
}

// setTimes sets the modification time and, if the node has one, the access time.
func (o *object) setTimes(n *tree.Node) error {
	ts := timesOf(n.ModTime, n.Access)
	err := retry(func() error {
		if o.name != "" {
			return unix.UtimesNanoAt(o.fd, o.name, ts, unix.AT_SYMLINK_NOFOLLOW)
		}
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(o.fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
		return errnoOrNil(errno)
	})
	if err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// isACL reports whether the attribute refines the mode, so that it must be set after it.
func isACL(name string) bool {
	switch name {
	case "system.posix_acl_access", "system.posix_acl_default", "system.nfs4_acl", "system.richacl":
		return true
	}
	return false
}

// Removable reports whether an attribute that the node does not have is taken off. Labels, integrity hashes and the
// bookkeeping of file systems belong to the target.
func Removable(name string) bool {
	switch {
	case name == "system.posix_acl_access", name == "system.posix_acl_default", name == "security.capability":
		return true
	case strings.HasPrefix(name, "trusted.overlay."):
		return false
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.")
}

func (o *object) setXattr(attr string, value []byte) error {
	if o.name == "" {
		return retry(func() error { return unix.Fsetxattr(o.fd, attr, value, 0) })
	}
	if !o.host.noXattrAt.Load() {
		if _, err := o.xattrAt(unix.SYS_SETXATTRAT, attr, value); !o.missing(err) {
			return err
		}
	}
	path, err := o.path()
	if err != nil {
		return err
	}
	return retry(func() error { return unix.Lsetxattr(path, attr, value, 0) })
}

func (o *object) removeXattr(attr string) error {
	if o.name == "" {
		return retry(func() error { return unix.Fremovexattr(o.fd, attr) })
	}
	path, err := o.path()
	if err == nil {
		return retry(func() error { return unix.Lremovexattr(path, attr) })
	}
	var name, key nameBuf
	pathp, attrp := name.pointer(o.name), key.pointer(attr)
	errAt := retry(func() error {
		_, _, errno := unix.Syscall6(unix.SYS_REMOVEXATTRAT, uintptr(o.fd), uintptr(unsafe.Pointer(pathp)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(attrp)), 0, 0)
		return errnoOrNil(errno)
	})
	if o.missing(errAt) {
		return err
	}
	return errAt
}

// flagTarget is the open object whose flags are set when everything else is done.
type flagTarget struct {
	fd   int // -1: none
	own  bool
	want uint32
	err  error
}

// openFlags opens the object as long as its mode allows it.
func (o *object) openFlags(n *tree.Node, what ApplyOptions) flagTarget {
	t := flagTarget{fd: -1, want: uint32(n.Flags)}
	switch {
	case what.ForeignFlags || n.Flags&^keptFlags != 0 || n.Type != tree.File && n.Type != tree.Dir:
		if n.Flags != 0 {
			t.err = fmt.Errorf("flags %#x of another platform or type: %w", n.Flags, ErrNotKept)
		}
		return t
	case o.name == "":
		t.fd = o.fd
		return t
	}
	fd, err := o.openSelf(n.Type)
	if err != nil {
		if n.Flags != 0 {
			t.err = fmt.Errorf("open to set flags %#x: %w", n.Flags, err)
		}
		return t
	}
	t.fd, t.own = fd, true
	return t
}

func (t *flagTarget) set() error {
	if t.fd < 0 {
		return t.err
	}
	return changeFlags(t.fd, t.want, keptFlags)
}

func (t *flagTarget) close() {
	if t.own {
		_ = unix.Close(t.fd)
	}
}

// openSelf opens the named file or directory for reading, and nothing else.
func (o *object) openSelf(typ tree.Type) (int, error) {
	if typ == tree.Dir {
		return openat(o.fd, o.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	}
	var st Stat
	d := Dir{fd: o.fd, host: o.host}
	return d.openRegular(o.name, &st)
}

func (o *object) unprotect() error {
	var st Stat
	if err := o.stat(&st); err != nil {
		return err
	}
	if st.Type != tree.File && st.Type != tree.Dir {
		return nil
	}
	fd, err := o.openSelf(st.Type)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return changeFlags(fd, 0, protectFlags)
}

func prepare(fd int, n *tree.Node) []Problem {
	want := uint32(n.Flags) & beforeContent
	if want == 0 {
		return nil
	}
	if err := changeFlags(fd, want, want); err != nil {
		return []Problem{{What: "flags", Err: err}}
	}
	return nil
}

func mknodat(dirfd int, name string, mode uint32, dev uint64) error {
	return unix.Mknodat(dirfd, name, mode, int(dev))
}

func preallocate(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func punchHole(fd int, off, n int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

func syncFile(fd int) error {
	err := unix.Fsync(fd)
	if errors.Is(err, unix.EINVAL) {
		return nil // nothing behind it to sync to
	}
	return err
}

// timesOf is the argument of utimensat: access time (left alone when the node has none) and modification time.
func timesOf(mtime tree.Time, atime *tree.Time) []unix.Timespec {
	ts := make([]unix.Timespec, 2)
	ts[0].Nsec = omitTime
	if atime != nil {
		setTimespec(&ts[0].Sec, &ts[0].Nsec, *atime)
	}
	setTimespec(&ts[1].Sec, &ts[1].Nsec, mtime)
	return ts
}

// setTimespec fills the fields of a Timespec, whose width differs between machines: on 32-bit ones the library has the
// calls that end in 2038. What does not fit comes out wrong and is told by verify.
func setTimespec[S, N ~int32 | ~int64](sec *S, nsec *N, t tree.Time) {
	*sec, *nsec = S(t.Sec), N(t.Nsec)
}
