package localfs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// xattrArgs is struct xattr_args of linux/xattr.h on 64-bit machines. value is a pointer, so that the stack may move;
// 32-bit machines use the older calls.
type xattrArgs struct {
	value unsafe.Pointer
	size  uint32
	flags uint32
}

// list fills p with the attribute names; for an empty p, it returns their length.
func (o *object) list(p []byte) (n int, err error) {
	if o.pinned {
		err = o.byPath(func(path string) error {
			n, err = unix.Listxattr(path, p)
			return err
		})
		return n, err
	}
	if o.name == "" {
		return retryCount(func() (int, error) { return unix.Flistxattr(o.fd, p) })
	}
	if !o.host.noXattrAt.Load() {
		var buf nameBuf
		path := buf.pointer(o.name)
		n, err := retryCount(func() (int, error) {
			n, _, errno := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(o.fd), uintptr(unsafe.Pointer(path)),
				unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0)
			return int(n), errnoOrNil(errno)
		})
		if !o.missing(err) {
			return n, err
		}
	}
	err = o.byPath(func(path string) error {
		n, err = unix.Llistxattr(path, p)
		return err
	})
	return n, err
}

// get fills p with the value of the attribute attr; for an empty p, it returns the length.
func (o *object) get(attr string, p []byte) (n int, err error) {
	if o.pinned {
		err = o.byPath(func(path string) error {
			n, err = unix.Getxattr(path, attr, p)
			return err
		})
		return n, err
	}
	if o.name == "" {
		return retryCount(func() (int, error) { return unix.Fgetxattr(o.fd, attr, p) })
	}
	if !o.host.noXattrAt.Load() {
		n, err := o.getAt(attr, p)
		if !o.missing(err) {
			return n, err
		}
	}
	err = o.byPath(func(path string) error {
		n, err = unix.Lgetxattr(path, attr, p)
		return err
	})
	return n, err
}

// getAt is getxattrat of Linux 6.13.
func (o *object) getAt(attr string, p []byte) (int, error) {
	var name, key nameBuf
	path, attrp := name.pointer(o.name), key.pointer(attr)
	args := &xattrArgs{value: unsafe.Pointer(unsafe.SliceData(p)), size: uint32(len(p))}
	if unsafe.Sizeof(*args) != 16 {
		return 0, unix.ENOSYS
	}
	n, err := retryCount(func() (int, error) {
		n, _, errno := unix.Syscall6(unix.SYS_GETXATTRAT, uintptr(o.fd), uintptr(unsafe.Pointer(path)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(attrp)), uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args))
		return int(n), errnoOrNil(errno)
	})
	runtime.KeepAlive(p)
	return n, err
}

// missing reports whether err means that the kernel lacks the ...xattrat calls, and records it. EPERM may be real or
// come from an old container runtime; the older call decides each time.
func (o *object) missing(err error) bool {
	if err == unix.ENOSYS {
		o.host.noXattrAt.Store(true)
	}
	return err == unix.ENOSYS || err == unix.EPERM && o.host.hasProc(o.fd)
}

// byPath makes a call that takes only a path: a link to the pinned object, or the path of the entry.
func (o *object) byPath(call func(path string) error) error {
	if !o.host.hasProc(o.fd) {
		return ErrNoProc
	}
	path := procPath(o.fd, o.name)
	return retry(func() error { return call(path) })
}

// extra is empty: on Linux, ACLs are attributes.
func (o *object) extra() ([]tree.Xattr, error) { return nil, nil }

// Settable reports whether a restore sets and compares an attribute: on Linux, each one.
func Settable(string) bool { return true }

func (d *Dir) eachXattr(names []string, attr string, yield func(i int, value []byte)) {
	for i, name := range names {
		if value, err := d.object(name).value(attr); err == nil {
			yield(i, value)
		}
	}
}

// hasXattrs returns true: security labels are attributes of devices, too.
func hasXattrs(tree.Type) bool { return true }
