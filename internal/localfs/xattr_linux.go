package localfs

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sort"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Xattrs returns the extended attributes of the entry name itself (of the directory, when name is "."), sorted by name:
// all the kernel lists for us, ACLs, labels and capabilities among them. None, also on a file system that has none, is
// nil. With an error comes what could be read.
func (d *Dir) Xattrs(name string, typ tree.Type) ([]tree.Xattr, error) {
	if err := checkNameOrSelf(name); err != nil {
		return nil, failed("read extended attributes of", name, err)
	}
	list, err := d.object(name).xattrs()
	if err != nil {
		err = failed("read extended attributes of", name, err)
	}
	return list, err
}

// Xattrs returns the extended attributes of the open file, as Dir.Xattrs does.
func (f *File) Xattrs() ([]tree.Xattr, error) {
	list, err := (&object{fd: f.fd, host: f.host}).xattrs()
	if err != nil {
		err = fmt.Errorf("read extended attributes: %w", err)
	}
	return list, err
}

func (o *object) xattrs() ([]tree.Xattr, error) {
	names, err := o.listNames()
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return nil, nil
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var list []tree.Xattr
	var failures []error
	for _, raw := range bytes.Split(names, []byte{0}) {
		if len(raw) == 0 {
			continue
		}
		name := string(raw)
		value, err := o.value(name)
		switch {
		case err == nil:
			list = append(list, tree.Xattr{Name: name, Value: value})
		case errors.Is(err, unix.ENODATA): // removed meanwhile
		default:
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, errors.Join(failures...)
}

// listNames returns the names, each ended by NUL. Most objects have few or none, so nothing is allocated for those.
func (o *object) listNames() ([]byte, error) {
	var small [512]byte
	n, err := o.list(small[:])
	if err == nil {
		if n == 0 {
			return nil, nil
		}
		return append([]byte(nil), small[:n]...), nil
	}
	return growing(err, o.list)
}

// value returns one attribute.
func (o *object) value(name string) ([]byte, error) {
	var small [512]byte
	get := func(p []byte) (int, error) { return o.get(name, p) }
	n, err := get(small[:])
	if err == nil {
		return append([]byte{}, small[:n]...), nil
	}
	return growing(err, get)
}

// growing asks for the size and reads until both agree: an attribute may be rewritten in between.
func growing(err error, read func(p []byte) (int, error)) ([]byte, error) {
	for err == unix.ERANGE {
		var n int
		if n, err = read(nil); err != nil {
			break
		}
		p := make([]byte, n+64)
		if n, err = read(p); err == nil {
			return p[:n:n], nil
		}
	}
	return nil, err
}

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

// missing reports whether err says that the kernel does not have the ...xattrat calls, and remembers it.
func (o *object) missing(err error) bool {
	if err == unix.ENOSYS {
		o.host.noXattrAt.Store(true)
		return true
	}
	return false
}

// path leads to the object for calls that take nothing but a path.
func (o *object) path() (string, error) {
	if !o.host.hasProc(o.fd) {
		return "", ErrNoProc
	}
	return procPath(o.fd, o.name), nil
}

func counted(call func() (int, error)) (int, error) {
	var n int
	err := retry(func() (err error) {
		n, err = call()
		return err
	})
	return n, err
}

func errnoOrNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
