package localfs

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// File is a regular file opened for reading. ReadAt, Stat, Facts, Extents and DropCache may be called from several
// goroutines; Read has a position and may not. It exports no descriptor, so no read goes past this package.
type File struct {
	content
	pos      int64
	opened   Stat
	presumed bool // opened is what was known; nobody has looked yet
	host     *host
	cache    cacheMark
}

// OpenFile opens the regular file name for reading, without following a symbolic link, without waiting for the other
// end of a fifo and, where the system allows, without touching the access time. Anything but a regular file is
// ErrNotRegular.
func (d *Dir) OpenFile(name string) (*File, error) {
	return new(Batch).Open(d, name, Known{})
}

// Expect says how many files are about to be opened in d, so that what pays only for several is done for the first.
func (d *Dir) Expect(files int) { d.again.Expect(files) }

// openInto makes f, which is not open, the file that OpenFile would return.
func (d *Dir) openInto(f *File, name string, known Known) error {
	if err := checkName(name); err != nil {
		return failed("open", name, err)
	}
	*f = File{content: content{fd: -1, door: d.door}, host: d.host}
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return failed("open", name, err)
	}
	fd, presumed, err := d.openKnown(name, known, &f.opened)
	grant.End(0)
	switch {
	case err == nil:
		f.fd, f.presumed = fd, presumed
		return nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV),
		errors.Is(err, unix.EOPNOTSUPP):
		// A symbolic link; a socket or a device without driver; a socket on macOS.
		return fmt.Errorf("open %q: %w (%w)", name, ErrNotRegular, err)
	default:
		return failed("open", name, err)
	}
}

// fstatRegular fills st and refuses what is not a regular file.
func fstatRegular(fd int, st *Stat) error {
	if err := fstat(fd, st); err != nil {
		return err
	}
	if st.Type != tree.File {
		return ErrNotRegular
	}
	return nil
}

// Opened returns what Stat told at the moment of opening: the "before" of noticing a change, without another call. While
// the file is presumed to be a known one, it is what was known of that.
func (f *File) Opened() *Stat { return &f.opened }

// Bound returns how many bytes the gate lets through at once at the moment; 0: any number.
func (f *File) Bound() int { return f.door.Pass.Bound() }

// Stat tells about the file now, also when its name is gone.
func (f *File) Stat() (Stat, error) {
	var st Stat
	if err := f.status(&st); err != nil {
		return Stat{}, fmt.Errorf("stat open file: %w", err)
	}
	return st, nil
}

// Facts are what a file is beside its content.
type Facts struct {
	Stat
	Xattrs   []tree.Xattr // as File.Xattrs tells them
	XattrErr error        // then Xattrs is what could be read
	Flags    uint64       // as File.Flags tells them
	FlagErr  error
}

// Facts tells all about the file now, as one operation. Stat comes last, so that a change of anything else that happens
// meanwhile shows in its ctime. The error is that of Stat, or says that nothing was asked.
func (f *File) Facts() (all Facts, err error) {
	err = f.door.once(iopolicy.Metadata, func() (err error) {
		all, err = f.facts()
		return err
	})
	return all, err
}

// facts is Facts behind no gate: all this is one operation.
func (f *File) facts() (all Facts, err error) {
	same := File{content: content{fd: f.fd}, host: f.host}
	all.Xattrs, all.XattrErr = same.Xattrs()
	all.Flags, all.FlagErr = same.Flags()
	all.Stat, err = same.Stat()
	return all, err
}

// ReadAt fills p from offset off. It returns less than len(p) only together with an error, io.EOF at the end.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.readFull(p, off) }

// Read reads on from where the last Read ended.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.readFull(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}
	return nil
}

// Extents splits the first size bytes of the file into data and holes, in order and without gaps; a trailing hole is
// told too. Where the file system cannot tell, everything is data. An error from yield ends the walk and is returned.
func (f *File) Extents(size uint64, yield func(off, n uint64, hole bool) error) error {
	for off := uint64(0); off < size; {
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
			end = size // it shrank meanwhile: reading finds out
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

// seek only asks: reading here is by pread, the position of the descriptor means nothing.
func (f *File) seek(off uint64, whence int) (uint64, error) {
	var at int64
	err := f.door.once(iopolicy.Metadata, func() (err error) {
		at, err = unix.Seek(f.fd, int64(off), whence)
		return err
	})
	return uint64(at), err
}
