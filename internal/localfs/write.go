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

// Mkdir makes the directory name with mode perm, less the umask. A restore passes 0o700 and sets the final mode after
// the children.
func (d *Dir) Mkdir(name string, perm uint32) error {
	return d.change("make directory", name, func() error { return unix.Mkdirat(d.fd, name, perm) })
}

// Symlink makes the symbolic link name with the given target.
func (d *Dir) Symlink(target, name string) error {
	return d.change("make symbolic link", name, func() error { return unix.Symlinkat(target, d.fd, name) })
}

// Mknod makes a fifo, a socket without a listener, or a device node with rdev = major<<32 | minor.
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

// Remove removes the entry name: an empty directory if dir is set, otherwise anything else.
func (d *Dir) Remove(name string, dir bool) error {
	flags := 0
	if dir {
		flags = unix.AT_REMOVEDIR
	}
	return d.change("remove", name, func() error { return unix.Unlinkat(d.fd, name, flags) })
}

// Rename renames the entry old, replacing new.
func (d *Dir) Rename(old, new string) error {
	if err := checkName(old); err != nil {
		return wrap("rename", old, err)
	}
	return d.change("rename to", new, func() error { return unix.Renameat(d.fd, old, d.fd, new) })
}

// MoveNew is Rename into the directory to, which is d or another one on the same file system, but fails with
// fs.ErrExist if new exists. A file system without such a call is checked first: there it replaces an object that
// another program makes between check and rename.
func (d *Dir) MoveNew(to *Dir, old, new string) error {
	if err := checkName(old); err != nil {
		return wrap("rename", old, err)
	}
	return to.change("rename to", new, func() error {
		err := renameNew(d.fd, old, to.fd, new)
		if err != unix.EINVAL && err != unix.ENOSYS && err != unix.ENOTSUP {
			return err
		}
		return d.moveChecked(to, old, new)
	})
}

func (d *Dir) moveChecked(to *Dir, old, new string) error {
	to.host.moving.Lock()
	defer to.host.moving.Unlock()
	var st Stat
	switch err := to.lstat(new, &st); {
	case err == nil:
		return unix.EEXIST
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return unix.Renameat(d.fd, old, to.fd, new)
}

// change makes or removes the entry name.
func (d *Dir) change(verb, name string, call func() error) error {
	err := checkName(name)
	if err == nil {
		err = d.ioctx.do(iopolicy.Metadata, call)
	}
	return wrap(verb, name, err)
}

// Writer is a regular file opened for writing. WriteAt is safe for concurrent use.
type Writer struct {
	content
	host *host
}

// CreateFile makes the file name with mode 0o600. It must not exist; a symbolic link is not followed.
func (d *Dir) CreateFile(name string) (*Writer, error) {
	fd := -1
	err := d.change("create", name, func() (err error) {
		fd, err = createAt(d.fd, name, 0o600)
		return err
	})
	if err != nil {
		return nil, err
	}
	return d.newWriter(fd), nil
}

func (d *Dir) newWriter(fd int) *Writer {
	return &Writer{content: content{fd: fd, ioctx: d.ioctx}, host: d.host}
}

// WriteAt writes all of p at offset off, or returns an error.
func (w *Writer) WriteAt(p []byte, off int64) (int, error) { return w.writeFull(p, off) }

// writeStart writes p to the beginning of the file, within an operation of the caller.
func (w *Writer) writeStart(p []byte, bounded bool) (int, error) {
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
	if err := w.push(0, done, bounded); err != nil {
		return done, fmt.Errorf("send to the device: %w", err)
	}
	return done, nil
}

func pwrite(fd int, p []byte, off int64) (int, error) {
	n, err := retryCount(func() (int, error) { return unix.Pwrite(fd, p, off) })
	return max(n, 0), err
}

// Truncate sets the size; what is beyond the old size is a hole.
func (w *Writer) Truncate(n int64) error {
	if err := w.ioctx.do(iopolicy.Metadata, func() error { return unix.Ftruncate(w.fd, n) }); err != nil {
		return fmt.Errorf("set size to %d: %w", n, err)
	}
	return nil
}

// Sync makes content and size durable, as far as the file system can.
func (w *Writer) Sync() error {
	_, err := w.Flush()
	return err
}

// Flush is Sync, and returns what it promises.
func (w *Writer) Flush() (p pages.Promise, err error) {
	err = w.ioctx.do(iopolicy.Sync, func() (err error) {
		p, err = syncFile(w.fd)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("sync file: %w", err)
	}
	return p, nil
}

// Dup returns another descriptor of the file, which stays valid after w is closed, whatever happens to the name. The
// caller closes both.
func (w *Writer) Dup() (*Writer, error) {
	fd, err := duplicate(w.fd)
	if err != nil {
		return nil, err
	}
	return &Writer{content: content{fd: fd, ioctx: w.ioctx}, host: w.host}, nil
}
