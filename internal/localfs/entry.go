package localfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Entry is one object of a directory, held by a descriptor. All calls reach the same object, even if its name is given
// to another one meanwhile. It belongs to one goroutine.
//
// On Linux the descriptor is O_PATH, which does not open the object, until Open needs to read. On macOS readable files,
// directories and links are opened; other objects are reached by name.
type Entry struct {
	dir    *Dir
	name   string
	object object
	owned  bool  // close the descriptor of object
	file   *File // open for reading; shares the descriptor of object
	st     Stat
}

// Pin holds the entry name and fills its Stat. typ is the expected type, which only affects how the object is held. The
// caller closes the Entry before it releases d.
func (d *Dir) Pin(name string, typ tree.Type) (*Entry, error) {
	grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
	if err != nil {
		return nil, wrap("look at", name, err)
	}
	defer grant.End(0)
	return d.pin(name, typ)
}

// pin is Pin within an operation of the caller.
func (d *Dir) pin(name string, typ tree.Type) (*Entry, error) {
	e := &Entry{dir: d, name: name}
	err := checkName(name)
	if err == nil {
		err = e.pin(typ)
	}
	if err != nil {
		e.Close()
		return nil, wrap("look at", name, err)
	}
	return e, nil
}

// Self returns d itself as an Entry, valid as long as d. Its Stat is empty.
func (d *Dir) Self() *Entry { return &Entry{dir: d, name: ".", object: object{fd: d.fd, host: d.host}} }

// Stat returns the status at the time of Pin.
func (e *Entry) Stat() *Stat { return &e.st }

// Open opens the object, a regular file, for reading. The Entry closes it.
func (e *Entry) Open() (*File, error) {
	if e.file != nil {
		return e.file, nil
	}
	if e.st.Type != tree.File {
		return nil, wrap("open", e.name, ErrNotRegular)
	}
	var fd int
	err := e.dir.ioctx.do(iopolicy.Metadata, func() (err error) {
		fd, err = e.reopen()
		return err
	})
	if err != nil {
		return nil, wrap("open", e.name, err)
	}
	e.setFile(fd)
	return e.file, nil
}

// setFile replaces the descriptor by fd, which has the same regular file open for reading.
func (e *Entry) setFile(fd int) {
	if e.owned {
		_ = unix.Close(e.object.fd)
	}
	e.owned = false // closed with the file
	e.object = object{fd: fd, host: e.dir.host}
	e.file = &File{content: content{fd: fd, ioctx: e.dir.ioctx}, host: e.dir.host, opened: e.st}
}

// Xattrs returns the extended attributes of the object, as Dir.Xattrs does; without /proc, those of its name.
func (e *Entry) Xattrs() ([]tree.Xattr, error) {
	if !hasXattrs(e.st.Type) {
		return nil, nil
	}
	list, err := e.dir.ioctx.readXattrs(&e.object)
	if errors.Is(err, ErrNoProc) {
		return e.dir.Xattrs(e.name, e.st.Type)
	}
	return list, wrap("read extended attributes of", e.name, err)
}

// Apply sets the metadata of n on the object, as Dir.Apply does.
func (e *Entry) Apply(n *tree.Node, what ApplyOptions) []Problem {
	return e.dir.ioctx.setAll("metadata", func() []Problem { return e.object.apply(n, what) })
}

// Unprotect is Dir.Unprotect of the object.
func (e *Entry) Unprotect() error {
	return wrap("unprotect", e.name, e.dir.ioctx.do(iopolicy.Metadata, e.object.unprotect))
}

// Link makes name, in the directory to, another name of the object.
func (e *Entry) Link(to *Dir, name string) error {
	return to.change("make hard link", name, func() error { return e.link(to.fd, name) })
}

// Close releases the object.
func (e *Entry) Close() {
	if e.file != nil {
		_ = e.file.Close()
	} else if e.owned {
		_ = unix.Close(e.object.fd)
	}
	e.file, e.owned = nil, false
}

// readlink reads the link at of the directory fd, or fd itself if at is empty. Messages call it name.
func (d *IOContext) readlink(fd int, at, name string) (string, error) {
	for buf := make([]byte, 256); ; buf = make([]byte, 4*len(buf)) {
		var n int
		err := d.do(iopolicy.Metadata, func() (err error) {
			n, err = unix.Readlinkat(fd, at, buf)
			return err
		})
		if err != nil {
			return "", wrap("read link", name, err)
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}

// requireSame returns an error unless st belongs to the held object.
func (e *Entry) requireSame(st *Stat) error {
	if st.Ino != e.st.Ino || st.Dev != e.st.Dev {
		return fmt.Errorf("%w (%w)", ErrVanished, ErrReplaced)
	}
	return nil
}
