package localfs

import (
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// list fills p with the attribute names; for an empty p, it returns their length. An AppleDouble file has none.
func (o *object) list(p []byte) (int, error) {
	n, err := o.listed(p)
	if o.refuses(err) {
		return 0, nil
	}
	return n, err
}

func (o *object) refuses(err error) bool {
	return err != nil && refusesXattrs(err, o.lastName(), o.volume)
}

func (o *object) listed(p []byte) (int, error) {
	if o.name == "" {
		return retryCount(func() (int, error) { return unix.Flistxattr(o.fd, p) })
	}
	var n int
	err := within(o.fd, func() (err error) {
		n, err = unix.Llistxattr(o.name, p)
		return err
	})
	return n, err
}

// lastName returns the name of the object in its directory; "" if it is not known.
func (o *object) lastName() string {
	if o.name != "" {
		return o.name
	}
	var path [unix.PathMax]byte
	_, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(o.fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&path[0])))
	if errno != 0 {
		return ""
	}
	return filepath.Base(unix.ByteSliceToString(path[:]))
}

// get fills p with the value of the attribute attr; for an empty p, it returns the length.
func (o *object) get(attr string, p []byte) (int, error) {
	if o.name == "" {
		return retryCount(func() (int, error) { return unix.Fgetxattr(o.fd, attr, p) })
	}
	var n int
	err := within(o.fd, func() (err error) {
		n, err = unix.Lgetxattr(o.name, attr, p)
		return err
	})
	return n, err
}

func (o *object) setXattr(attr string, value []byte) error {
	switch {
	case attr == macACLName:
		return setMacACL(o, value)
	case o.name == "":
		return retry(func() error { return unix.Fsetxattr(o.fd, attr, value, 0) })
	}
	return within(o.fd, func() error { return unix.Lsetxattr(o.name, attr, value, 0) })
}

func (o *object) removeXattr(attr string) error {
	switch {
	case attr == macACLName:
		return setMacACL(o, nil)
	case o.name == "":
		return retry(func() error { return unix.Fremovexattr(o.fd, attr) })
	}
	return within(o.fd, func() error { return unix.Lremovexattr(o.name, attr) })
}

// extra returns the access control list, which macOS does not treat as an extended attribute.
func (o *object) extra() ([]tree.Xattr, error) {
	list, err := macACLOf(o)
	if o.refuses(err) {
		return nil, nil
	}
	return list, err
}

// isACL reports whether the attribute refines the mode, so that it is set after it.
func isACL(name string) bool { return name == macACLName }

// Removable reports whether an attribute that the node lacks is removed. The system sets these by itself and does not
// allow their removal.
func Removable(name string) bool { return !ownedBySystem(name) }

// Settable reports whether a restore sets and compares an attribute.
func Settable(name string) bool { return !ownedBySystem(name) }

func (d *Dir) eachXattr(names []string, attr string, yield func(i int, value []byte)) {
	_ = within(d.fd, func() error { // without it, none has the attribute
		for i, name := range names {
			value, err := readValue(func(p []byte) (int, error) { return unix.Lgetxattr(name, attr, p) })
			if err == nil {
				yield(i, value)
			}
		}
		return nil
	})
}

func hasXattrs(typ tree.Type) bool { return macHasXattrs(typ) }
