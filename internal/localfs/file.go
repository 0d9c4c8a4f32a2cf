package localfs

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// File is a regular file opened for reading. ReadAt, Stat, Facts, Extents and DropCache are safe for concurrent use;
// Read is not. It exports no descriptor, so all reads pass the gate.
type File struct {
	content
	pos      int64
	opened   Stat
	host     *host
	cache    cacheMark
	dirty    bool
	resident bool // the page cache held all of it when it was probed
}

// OpenFile opens the regular file name for reading. It follows no symbolic link, does not block on a fifo and, where
// permitted, keeps the access time. Anything but a regular file is ErrNotRegular.
func (d *Dir) OpenFile(name string) (*File, error) {
	return new(Batch).Open(d, name, Known{})
}

// ReadStart returns the beginning of the regular file name, up to limit bytes.
func (d *Dir) ReadStart(name string, limit int) ([]byte, error) {
	f, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := make([]byte, min(uint64(limit), f.opened.Size))
	n, err := f.ReadAt(p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], err
}

// Expect announces how many files will be opened in d, so that preparations that pay for several are made for the
// first.
func (d *Dir) Expect(files int) { d.noDev.expect(files) }

// openInto opens name into f, which is closed.
func (d *Dir) openInto(f *File, name string, known Known) error {
	if err := checkName(name); err != nil {
		return wrap("open", name, err)
	}
	*f = File{content: content{fd: -1, ioctx: d.ioctx}, host: d.host}
	if d.MaxIO() > 0 {
		if f.fd = d.openCached(name, known, &f.opened); f.fd >= 0 {
			return nil
		}
	}
	grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
	if err != nil {
		return wrap("open", name, err)
	}
	fd, err := d.openKnown(name, known, &f.opened)
	grant.End(0)
	switch {
	case err == nil:
		f.fd = fd
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV),
		errors.Is(err, unix.EOPNOTSUPP):
		// A symbolic link; a socket or a device without a driver; a socket on macOS.
		return fmt.Errorf("open %q: %w (%w)", name, ErrNotRegular, err)
	default:
		return wrap("open", name, err)
	}
}

// fstatRegular fills st, and returns an error unless it is a regular file.
func fstatRegular(fd int, st *Stat) error {
	if err := fstat(fd, st); err != nil {
		return err
	}
	if st.Type != tree.File {
		return ErrNotRegular
	}
	return nil
}

// Opened returns the status at the time of opening.
func (f *File) Opened() *Stat { return &f.opened }

// MaxIO returns how many bytes the gate admits at once at present; 0: no limit.
func (f *File) MaxIO() int { return f.ioctx.Pass.Bound() }

// Facts is the metadata of a file.
type Facts struct {
	Stat
	Xattrs   []tree.Xattr // as File.Xattrs returns them
	XattrErr error        // then Xattrs is incomplete
	Flags    uint64       // as File.Flags returns them
	FlagErr  error
}

// Facts reads all metadata as one operation. The status is read last, so its ctime reveals any other change meanwhile.
// The error is that of Stat or of the gate.
func (f *File) Facts() (all Facts, err error) {
	err = f.ioctx.do(iopolicy.Metadata, func() (err error) {
		all, err = f.facts()
		return err
	})
	return all, err
}

// facts is Facts without a gate.
func (f *File) facts() (all Facts, err error) {
	same := File{content: content{fd: f.fd}, host: f.host}
	all.Xattrs, all.XattrErr = same.Xattrs()
	all.Flags, all.FlagErr = same.Flags()
	all.Stat, err = same.Stat()
	return all, err
}

// Flags returns the flags of the open file, as Dir.Flags does.
func (f *File) Flags() (uint64, error) { return f.ioctx.readFlags(&object{fd: f.fd}, "") }

// readFlags reads the flags of an object as one operation.
func (d *IOContext) readFlags(o *object, name string) (flags uint64, err error) {
	err = d.do(iopolicy.Metadata, func() (err error) {
		flags, err = o.kept()
		return err
	})
	return flags, wrap("read flags of", name, err)
}

// ReadAt fills p from offset off. It returns less than len(p) only with an error, io.EOF at the end.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if f.readResident(p, off) {
		return len(p), nil
	}
	return f.readFull(p, off)
}

// Read continues where the last Read ended.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.readFull(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Close closes the file. Nothing is lost if its error is ignored.
func (f *File) Close() error { return f.content.Close() }

// Extents splits the bytes between two offsets into data and holes, in order and without gaps, including a final
// hole. Where the file system does not report holes, or they are not believed, everything is data. An error of yield
// ends the walk and is returned.
func (f *File) Extents(from, to uint64, yield func(off, n uint64, hole bool) error) error {
	return f.extents(HolesAreTrue, from, to, yield)
}

func (f *File) extents(believe bool, off, size uint64, yield func(off, n uint64, hole bool) error) error {
	if !believe && off < size {
		return yield(off, size-off, false)
	}
	for off < size {
		data, err := f.seek(off, unix.SEEK_DATA)
		switch {
		case err == unix.ENXIO:
			return yield(off, size-off, true)
		case err == unix.EINVAL || err == unix.EOPNOTSUPP:
			return yield(off, size-off, false)
		case err != nil:
			return fmt.Errorf("seek data from %d: %w", off, err)
		}
		if data = min(data, size); data > off {
			if err := yield(off, data-off, true); err != nil {
				return err
			}
			off = data
			continue
		}
		end, err := f.seek(off, unix.SEEK_HOLE)
		if err == unix.ENXIO || err == nil && end <= off {
			end = size // the file shrank; reading detects that
		} else if err != nil {
			return fmt.Errorf("seek hole from %d: %w", off, err)
		}
		end = min(end, size)
		if err := yield(off, end-off, false); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// seek does not affect reads, which use pread.
func (f *File) seek(off uint64, whence int) (uint64, error) {
	var at int64
	err := f.ioctx.do(iopolicy.Metadata, func() (err error) {
		at, err = unix.Seek(f.fd, int64(off), whence)
		return err
	})
	return uint64(at), err
}
