package localfs

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	symlinksHaveModes = false
	omitTime          = unix.UTIME_OMIT
	noXattr           = unix.ENODATA // no such attribute
)

func (o *object) stat(st *Stat) error {
	if o.name == "" {
		return fstat(o.fd, st)
	}
	return o.host.lstat(o.fd, o.name, st)
}

func (o *object) chown(uid, gid int) error {
	return retry(func() error {
		switch {
		case o.pinned:
			return unix.Fchownat(o.fd, "", uid, gid, unix.AT_EMPTY_PATH)
		case o.name == "":
			return unix.Fchown(o.fd, uid, gid)
		}
		return unix.Fchownat(o.fd, o.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// chmod does not follow symbolic links. For an entry without a descriptor it needs Linux 6.6.
func (o *object) chmod(mode uint32) error {
	if o.pinned {
		return o.byLink(func(proc int, link string) error { return unix.Fchmodat(proc, link, mode, 0) })
	}
	if o.name == "" {
		return retry(func() error { return unix.Fchmod(o.fd, mode) })
	}
	return retry(func() error { return unix.Fchmodat(o.fd, o.name, mode, unix.AT_SYMLINK_NOFOLLOW) })
}

// byLink makes a call that accepts no O_PATH descriptor, by the object's link in /proc/self/fd.
func (o *object) byLink(call func(proc int, link string) error) error {
	if !o.host.hasProc(o.fd) {
		return ErrNoProc
	}
	var link fdName
	return retry(func() error { return call(o.host.proc, link.of(o.fd)) })
}

// setTimes sets the modification time and, if the node has one, the access time.
func (o *object) setTimes(n *tree.Node) error {
	ts := timesOf(n.ModTime, n.Access)
	err := retry(func() error {
		if o.pinned {
			return o.byLink(func(proc int, link string) error { return unix.UtimesNanoAt(proc, link, ts, 0) })
		}
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

// aclsForbid: a right to change a directory is one to rename its entries.
const aclsForbid = false

// isACL reports whether the attribute refines the mode, so that it is set after it.
func isACL(name string) bool {
	switch name {
	case "system.posix_acl_access", "system.posix_acl_default", "system.nfs4_acl", "system.richacl":
		return true
	}
	return false
}

// Removable reports whether an attribute that the node lacks is removed. Labels, integrity hashes and internal
// attributes of file systems belong to the target.
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
	if o.pinned {
		return o.byPath(func(path string) error { return unix.Setxattr(path, attr, value, 0) })
	}
	if o.name == "" {
		return retry(func() error { return unix.Fsetxattr(o.fd, attr, value, 0) })
	}
	return o.byPath(func(path string) error { return unix.Lsetxattr(path, attr, value, 0) })
}

func (o *object) removeXattr(attr string) error {
	if o.pinned {
		return o.byPath(func(path string) error { return unix.Removexattr(path, attr) })
	}
	if o.name == "" {
		return retry(func() error { return unix.Fremovexattr(o.fd, attr) })
	}
	return o.byPath(func(path string) error { return unix.Lremovexattr(path, attr) })
}

// flagsLater opens the object while its mode permits it, and returns the call that sets its flags and closes it.
func (o *object) flagsLater(n *tree.Node, what ApplyOptions) (set func() error) {
	failed := func(err error) func() error {
		if n.Flags == 0 {
			err = nil
		}
		return func() error { return err }
	}
	want := uint32(n.Flags)
	switch {
	case what.ForeignFlags || n.Flags&^keptFlags != 0 || n.Type != tree.File && n.Type != tree.Dir:
		return failed(fmt.Errorf("flags %#x of another platform or type: %w", n.Flags, ErrNotKept))
	case o.name == "" && !o.pinned:
		fd := o.fd // o stays on the stack
		return func() error { return changeFlags(fd, want, keptFlags) }
	}
	fd, err := o.openSelf()
	if err != nil {
		return failed(fmt.Errorf("open to set flags %#x: %w", n.Flags, err))
	}
	return func() error {
		defer unix.Close(fd)
		return changeFlags(fd, want, keptFlags)
	}
}

// openSelf opens the pinned file or directory for reading.
func (o *object) openSelf() (fd int, err error) {
	if !o.pinned {
		return -1, unix.EINVAL
	}
	err = o.byLink(func(proc int, link string) error {
		fd, err = openat(proc, link, unix.O_RDONLY|unix.O_CLOEXEC)
		return err
	})
	return fd, err
}

func (o *object) unprotect() error {
	var st Stat
	if err := o.stat(&st); err != nil {
		return err
	}
	if st.Type != tree.File && st.Type != tree.Dir {
		return nil
	}
	if o.name == "" && !o.pinned {
		return changeFlags(o.fd, 0, protectFlags)
	}
	fd, err := o.openSelf()
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

func syncFile(fd int) (pages.Promise, error) {
	err := unix.Fsync(fd)
	if errors.Is(err, unix.EINVAL) {
		return pages.Durable, nil // nothing to sync
	}
	return pages.Durable, err
}

// timesOf returns the argument of utimensat. The access time is left alone if the node has none.
func timesOf(mtime tree.Time, atime *tree.Time) []unix.Timespec {
	ts := make([]unix.Timespec, 2)
	ts[0].Nsec = omitTime
	if atime != nil {
		setTimespec(&ts[0].Sec, &ts[0].Nsec, *atime)
	}
	setTimespec(&ts[1].Sec, &ts[1].Nsec, mtime)
	return ts
}

// setTimespec fills a Timespec, whose fields have 32 bits on some machines. verify reports times that do not fit.
func setTimespec[S, N ~int32 | ~int64](sec *S, nsec *N, t tree.Time) {
	*sec, *nsec = S(t.Sec), N(t.Nsec)
}
