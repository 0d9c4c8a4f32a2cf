package localfs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// xattrArgs is struct xattr_args of linux/xattr.h on 64-bit machines, where a pointer fills its 64-bit field. It is
// declared as a pointer so that the stack may move while it is held; 32-bit machines use the calls before these.
type xattrArgs struct {
	value unsafe.Pointer
	size  uint32
	flags uint32
}

// list fills p with the names of the attributes, or tells their length when p is empty.
func (o *object) list(p []byte) (int, error) {
	if o.name == "" {
		return counted(func() (int, error) { return unix.Flistxattr(o.fd, p) })
	}
	if !o.host.noXattrAt.Load() {
		var buf nameBuf
		path := buf.pointer(o.name)
		n, err := counted(func() (int, error) {
			n, _, errno := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(o.fd), uintptr(unsafe.Pointer(path)),
				unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0)
			return int(n), errnoOrNil(errno)
		})
		if !o.missing(err) {
			return n, err
		}
	}
	path, err := o.path()
	if err != nil {
		return 0, err
	}
	return counted(func() (int, error) { return unix.Llistxattr(path, p) })
}

// get fills p with the value of the attribute attr, or tells its length when p is empty.
func (o *object) get(attr string, p []byte) (int, error) {
	if o.name == "" {
		return counted(func() (int, error) { return unix.Fgetxattr(o.fd, attr, p) })
	}
	if !o.host.noXattrAt.Load() {
		n, err := o.xattrAt(unix.SYS_GETXATTRAT, attr, p)
		if !o.missing(err) {
			return n, err
		}
	}
	path, err := o.path()
	if err != nil {
		return 0, err
	}
	return counted(func() (int, error) { return unix.Lgetxattr(path, attr, p) })
}

// xattrAt is getxattrat and setxattrat, which take the same arguments: calls of Linux 6.13.
func (o *object) xattrAt(trap uintptr, attr string, p []byte) (int, error) {
	var name, key nameBuf
	path, attrp := name.pointer(o.name), key.pointer(attr)
	args := &xattrArgs{value: unsafe.Pointer(unsafe.SliceData(p)), size: uint32(len(p))}
	if unsafe.Sizeof(*args) != 16 {
		return 0, unix.ENOSYS
	}
	n, err := counted(func() (int, error) {
		n, _, errno := unix.Syscall6(trap, uintptr(o.fd), uintptr(unsafe.Pointer(path)), unix.AT_SYMLINK_NOFOLLOW,
			uintptr(unsafe.Pointer(attrp)), uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args))
		return int(n), errnoOrNil(errno)
	})
	runtime.KeepAlive(p)
	return n, err
}

// missing reports whether err says that the kernel does not have the ...xattrat calls, and remembers it. EPERM may be
// the word of an old container runtime, or meant: the older call will tell, and is asked each time.
func (o *object) missing(err error) bool {
	if err == unix.ENOSYS {
		o.host.noXattrAt.Store(true)
	}
	return err == unix.ENOSYS || err == unix.EPERM && o.host.hasProc(o.fd)
}

// path leads to the object for calls that take nothing but a path.
func (o *object) path() (string, error) {
	if !o.host.hasProc(o.fd) {
		return "", ErrNoProc
	}
	return procPath(o.fd, o.name), nil
}

// extra returns what other systems keep beside the attributes: on Linux, ACLs are attributes.
func (o *object) extra() ([]tree.Xattr, error) { return nil, nil }
