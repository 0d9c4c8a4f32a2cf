package localfs

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Xattrs returns the extended attributes of the entry name, or of the directory if name is ".", sorted by name,
// including ACLs, labels and capabilities. It returns nil without attributes. With an error, the result is incomplete.
func (d *Dir) Xattrs(name string, typ tree.Type) ([]tree.Xattr, error) {
	if err := checkNameOrSelf(name); err != nil {
		return nil, wrap("read extended attributes of", name, err)
	}
	if !hasXattrs(typ) {
		return nil, nil
	}
	list, err := d.ioctx.readXattrs(d.object(name))
	return list, wrap("read extended attributes of", name, err)
}

// EachXattr calls yield with the value of one extended attribute of each of some entries that has it, as one operation.
// An entry whose attribute cannot be read counts as one without it. macOS takes names by the working directory of a
// thread only, which is changed once for all of them.
func (d *Dir) EachXattr(names []string, attr string, yield func(i int, value []byte)) error {
	grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
	if err != nil {
		return fmt.Errorf("read extended attribute %s: %w", attr, err)
	}
	d.eachXattr(names, attr, yield)
	grant.End(0)
	return nil
}

// Xattrs returns the extended attributes of the open file, as Dir.Xattrs does.
func (f *File) Xattrs() ([]tree.Xattr, error) {
	list, err := f.ioctx.readXattrs(&object{fd: f.fd, host: f.host})
	if err != nil {
		err = fmt.Errorf("read extended attributes: %w", err)
	}
	return list, err
}

// readXattrs reads all attributes of one object as one operation.
func (d *IOContext) readXattrs(o *object) ([]tree.Xattr, error) {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err != nil {
		return nil, err
	}
	list, err := o.xattrs()
	grant.End(0)
	return list, err
}

func (o *object) xattrs() ([]tree.Xattr, error) {
	names, err := o.listNames()
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		names, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := o.extra()
	if err == nil && len(names) == 0 {
		return list, nil
	}
	failures := []error{err}
	for _, raw := range bytes.Split(names, []byte{0}) {
		if len(raw) == 0 {
			continue
		}
		name := string(raw)
		value, err := o.value(name)
		switch {
		case err == nil:
			list = append(list, tree.Xattr{Name: name, Value: value})
		case errors.Is(err, noXattr): // removed meanwhile
		default:
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, errors.Join(failures...)
}

// listNames returns the names, each ended by NUL. It does not allocate for objects with few or none.
func (o *object) listNames() ([]byte, error) {
	var small [512]byte
	n, err := o.list(small[:])
	if err == nil {
		if n == 0 {
			return nil, nil
		}
		return append([]byte(nil), small[:n]...), nil
	}
	return readGrowing(err, o.list)
}

func (o *object) value(name string) ([]byte, error) {
	return readValue(func(p []byte) (int, error) { return o.get(name, p) })
}

// readValue returns the value that get fills p with; for an empty p, get returns the length. A value that does not fit
// is ERANGE, but for a resource fork macOS silently returns a part.
func readValue(get func(p []byte) (int, error)) ([]byte, error) {
	var small [512]byte
	n, err := get(small[:])
	switch {
	case err == nil && n < len(small):
		return append([]byte{}, small[:n]...), nil
	case err == nil:
		err = unix.ERANGE
	}
	return readGrowing(err, get)
}

// readGrowing queries the size and reads until both agree, since the attribute may change in between.
func readGrowing(err error, read func(p []byte) (int, error)) ([]byte, error) {
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

func (o *object) xattrNames() ([]string, error) {
	raw, err := o.listNames()
	var names []string
	for name := range bytes.SplitSeq(raw, []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	extra, _ := o.extra() // unreadable ones need no removal
	for _, x := range extra {
		names = append(names, x.Name)
	}
	return names, err
}

func retryCount(call func() (int, error)) (int, error) {
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
