package localfs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/nodev"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Dir is an open directory. It is counted: OpenDir, OpenWay and Open return it with one reference, Retain adds one, and the last
// Release closes it. Everything but Entries may be called from several goroutines.
type Dir struct {
	fd      int
	refs    atomic.Int32
	devices atomic.Int32 // whether a device node could be opened here: see mayHoldDevices
	noAtime atomic.Bool  // O_NOATIME was refused here once: it would be for most of the files beside as well
	again   nodev.Again  // the same directory, where no device can be opened
	door    Door
	host    *host // what was learned about the running kernel, shared by all directories below one OpenDir
}

// OpenDir is Door.OpenDir of the zero Door.
func OpenDir(path string) (*Dir, error) { return Door{}.OpenDir(path) }

// OpenWay is Door.OpenWay of the zero Door.
func OpenWay(path string) (*Dir, error) { return Door{}.OpenWay(path) }

// OpenDir opens a source root or a restore target by its path. Here and in OpenWay alone a path is looked up; symbolic
// links in it are followed, as the user named it.
func (d Door) OpenDir(path string) (*Dir, error) { return d.open(path, unix.O_RDONLY) }

// OpenWay opens a directory on the way to a source by its path, as OpenDir does. It is enough if we may pass through it:
// entries can be opened and looked at by their names, but if it may not be listed, Entries fails.
func (d Door) OpenWay(path string) (*Dir, error) {
	dir, err := d.OpenDir(path)
	if err == nil || !errors.Is(err, unix.EACCES) {
		return dir, err
	}
	if way, wayErr := d.open(path, passThrough); wayErr == nil {
		return way, nil
	}
	return nil, err
}

func (d Door) open(path string, flags int) (*Dir, error) {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err == nil {
		var fd int
		fd, err = openat(unix.AT_FDCWD, path, flags|unix.O_DIRECTORY|unix.O_CLOEXEC)
		grant.End(0)
		if err == nil {
			return newDir(fd, newHost(), d), nil
		}
	}
	return nil, fmt.Errorf("open directory %q: %w", path, err)
}

func newDir(fd int, h *host, door Door) *Dir {
	d := &Dir{fd: fd, host: h, door: door}
	d.refs.Store(1)
	h.retain()
	return d
}

// Open opens the directory name. A symbolic link, or anything else that is not a directory, is ErrNotDir.
func (d *Dir) Open(name string) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, failed("open directory", name, err)
	}
	grant, err := d.door.begin(iopolicy.Metadata, 0)
	if err != nil {
		return nil, failed("open directory", name, err)
	}
	fd, err := d.openRead(name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	grant.End(0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("open directory %q: %w (%w)", name, ErrNotDir, err)
	}
	if err != nil {
		return nil, failed("open directory", name, err)
	}
	return newDir(fd, d.host, d.door), nil
}

// Gone reports whether there is no object of this type and inode number under name any more. Whoever was told by an error
// that something is not there, or is of another kind, asks before believing it: a server that has forgotten all it had says
// so of each file, and there are file systems that refuse to open a file with the error of something that is none.
func (d *Dir) Gone(name string, typ tree.Type, ino uint64) bool {
	var st Stat
	if err := d.Lstat(name, &st); err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	return st.Type != typ || st.Ino != ino
}

// Retain adds a reference.
func (d *Dir) Retain() { d.refs.Add(1) }

// Release gives up a reference; the last one closes the directory. It panics when there was none left: closing a
// descriptor twice can close somebody else's file.
func (d *Dir) Release() {
	switch n := d.refs.Add(-1); {
	case n == 0:
		d.again.Close() // first, so that no file system is in use without being seen to be
		_ = unix.Close(d.fd)
		d.fd = -1
		d.host.release()
	case n < 0:
		panic("localfs: directory released more often than retained")
	}
}

// Readlink returns the target of the symbolic link name, byte for byte.
func (d *Dir) Readlink(name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", failed("read link", name, err)
	}
	for buf := make([]byte, 256); ; buf = make([]byte, 4*len(buf)) {
		var n int
		err := d.door.once(iopolicy.Metadata, func() (err error) {
			n, err = unix.Readlinkat(d.fd, name, buf)
			return err
		})
		if err != nil {
			return "", failed("read link", name, err)
		}
		if n < len(buf) {
			return string(buf[:n]), nil
		}
	}
}
