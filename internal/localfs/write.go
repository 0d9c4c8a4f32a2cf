package localfs

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// Mkdir makes the directory name with the permission bits perm, less the umask. Give it only what the restore itself
// needs (0o700): Apply sets the final mode after the children were written.
func (d *Dir) Mkdir(name string, perm uint32) error {
	return d.change("make directory", name, func() error { return unix.Mkdirat(d.fd, name, perm) })
}

// Symlink makes the symbolic link name that points to target.
func (d *Dir) Symlink(target, name string) error {
	return d.change("make symbolic link", name, func() error { return unix.Symlinkat(target, d.fd, name) })
}

// Link makes name another name of the object old in oldDir. A symbolic link gets another name itself.
func (d *Dir) Link(oldDir *Dir, old, name string) error {
	if err := checkName(old); err != nil {
		return failed("link to", old, err)
	}
	return d.change("make hard link", name, func() error { return unix.Linkat(oldDir.fd, old, d.fd, name, 0) })
}

// Mknod makes a fifo, a socket (its name: nobody listens on it) or a device node with rdev = major<<32 | minor.
func (d *Dir) Mknod(name string, typ tree.Type, mode uint32, rdev uint64) error {
	format := uint32(0)
	switch typ {
	case tree.Fifo:
		format, rdev = unix.S_IFIFO, 0
	case tree.Socket:
		format, rdev = unix.S_IFSOCK, 0
	case tree.CharDevice:
		format = unix.S_IFCHR
	case tree.BlockDevice:
		format = unix.S_IFBLK
	default:
		return fmt.Errorf("make special file %q: type %d: %w", name, typ, ErrNotKept)
	}
	dev := unix.Mkdev(uint32(rdev>>32), uint32(rdev))
	if got := device(unix.Major(dev), unix.Minor(dev)); got != rdev {
		return fmt.Errorf("make special file %q: device number %d:%d: %w", name, rdev>>32, uint32(rdev), ErrNotKept)
	}
	return d.change("make special file", name, func() error {
		return mknodat(d.fd, name, format|mode&0o777, dev)
	})
}

// Remove removes the entry name: an empty directory when dir is set, anything else when it is not.
func (d *Dir) Remove(name string, dir bool) error {
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	return d.change("remove", name, func() error { return unix.Unlinkat(d.fd, name, flags) })
}

// Rename gives the entry old the name new, in place of what had it.
func (d *Dir) Rename(old, new string) error {
	if err := checkName(old); err != nil {
		return failed("rename", old, err)
	}
	return d.change("rename to", new, func() error { return unix.Renameat(d.fd, old, d.fd, new) })
}

// DurableRename is Rename and SyncDir: when it returns, the new name survives a power failure. The file itself must have
// been synced before, or an empty one may survive under its name.
func (d *Dir) DurableRename(old, new string) error {
	if err := d.Rename(old, new); err != nil {
		return err
	}
	return d.SyncDir()
}

// SyncDir makes the names in the directory durable. A file system that cannot sync a directory has nothing to sync.
func (d *Dir) SyncDir() error {
	err := d.door.once(iopolicy.Sync, func() error { return unix.Fsync(d.fd) })
	if err != nil && (stopped(err) || !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP)) {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// change is what the calls that make or remove the entry name share.
func (d *Dir) change(verb, name string, call func() error) error {
	err := checkName(name)
	if err == nil {
		err = d.door.once(iopolicy.Metadata, call)
	}
	if err != nil {
		return failed(verb, name, err)
	}
	return nil
}

// Writer is a regular file opened for writing. WriteAt and ReadAt may be called from several goroutines.
type Writer struct {
	content
	host *host
}

// CreateFile makes the file name, readable and writable for the owner only until SetMeta. It must not exist; a symbolic
// link by that name is not followed.
func (d *Dir) CreateFile(name string) (*Writer, error) {
	return d.createWriter(name, 0o600)
}

func (d *Dir) createWriter(name string, mode uint32) (*Writer, error) {
	fd := -1
	err := d.change("create", name, func() (err error) {
		fd, err = createAt(d.fd, name, mode)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d.newWriter(fd), nil
}

// OpenWriter opens the existing regular file name to repair it in place; its content stays. Anything else is
// ErrNotRegular.
func (d *Dir) OpenWriter(name string) (*Writer, error) {
	if err := checkName(name); err != nil {
		return nil, failed("open for writing", name, err)
	}
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return nil, failed("open for writing", name, err)
	}
	fd, err := d.openForWriting(name)
	grant.End(0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EISDIR) {
		return nil, fmt.Errorf("open for writing %q: %w (%w)", name, ErrNotRegular, err)
	}
	if err != nil {
		return nil, failed("open for writing", name, err)
	}
	return d.newWriter(fd), nil
}

func (d *Dir) newWriter(fd int) *Writer {
	return &Writer{content: content{fd: fd, door: d.door}, host: d.host}
}

// WriteAt writes all of p at offset off, or returns an error.
func (w *Writer) WriteAt(p []byte, off int64) (int, error) { return w.writeFull(p, off) }

// ReadAt reads what is there, to find out what need not be written. As File.ReadAt.
func (w *Writer) ReadAt(p []byte, off int64) (int, error) { return w.readFull(p, off) }

// pour writes p to the beginning of the file, inside an operation that the caller has begun, as writeFull would do in one
// of its own.
func (w *Writer) pour(p []byte, bounded bool) (int, error) {
	done := 0
	for done < len(p) {
		n, err := pwrite(w.fd, p[done:], int64(done))
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, fmt.Errorf("write at %d: %w", done, err)
		}
		done += n
	}
	if done > 0 && (bounded || w.door.Yields()) {
		if err := pages.Push(w.fd, 0, int64(done), bounded); err != nil {
			return done, fmt.Errorf("send to the device: %w", err)
		}
	}
	return done, nil
}

// pwrite is one call. It returns no negative number.
func pwrite(fd int, p []byte, off int64) (n int, err error) {
	for {
		if n, err = unix.Pwrite(fd, p, off); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// Truncate sets the size; what is beyond the old size is a hole.
func (w *Writer) Truncate(n int64) error {
	if err := w.door.once(iopolicy.Metadata, func() error { return unix.Ftruncate(w.fd, n) }); err != nil {
		return fmt.Errorf("set size to %d: %w", n, err)
	}
	return nil
}

// Preallocate reserves blocks for a range that will be written, so that the file is in one piece and a full disk is
// told early. The size does not change. A file system that cannot reserve is no error.
func (w *Writer) Preallocate(off, n int64) error {
	if n <= 0 {
		return nil
	}
	err := w.door.once(iopolicy.Metadata, func() error { return preallocate(w.fd, off, n) })
	if err != nil && !cannot(err) {
		return fmt.Errorf("reserve %d bytes at %d: %w", n, off, err)
	}
	return nil
}

// cannot reports whether err says that the file system has no such call for a file.
func cannot(err error) bool { return Unsupported(err) || !stopped(err) && errors.Is(err, unix.EINVAL) }

// PunchHole makes a range of an existing file a hole; where the file system cannot, it writes zeros. It does not change
// the size: a range that ends behind it is cut there.
func (w *Writer) PunchHole(off, n int64) error {
	st, err := w.Stat()
	if err != nil {
		return err
	}
	n = min(n, int64(st.Size)-off)
	if n <= 0 {
		return nil
	}
	err = w.door.once(iopolicy.Metadata, func() error { return punchHole(w.fd, off, n) })
	if err != nil && !cannot(err) {
		return fmt.Errorf("make a hole of %d bytes at %d: %w", n, off, err)
	}
	if err == nil {
		return nil
	}
	zeros := make([]byte, min(n, 1<<16))
	for ; n > 0; n, off = n-int64(len(zeros)), off+int64(len(zeros)) {
		zeros = zeros[:min(n, int64(len(zeros)))]
		if _, err := w.WriteAt(zeros, off); err != nil {
			return err
		}
	}
	return nil
}

// Stat tells about the file now.
func (w *Writer) Stat() (Stat, error) {
	var st Stat
	if err := w.status(&st); err != nil {
		return Stat{}, fmt.Errorf("stat file being written: %w", err)
	}
	return st, nil
}

// Sync makes content and size durable, on macOS down through the drive's own cache.
func (w *Writer) Sync() error {
	if err := w.door.once(iopolicy.Sync, func() error { return syncFile(w.fd) }); err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	return nil
}

// Close closes the file. An error means that the file system may not have kept what was written.
func (w *Writer) Close() error {
	if err := w.close(); err != nil {
		return fmt.Errorf("close written file: %w", err)
	}
	return nil
}
