package localfs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Dir is an open directory with a reference count. OpenDir, OpenSearchable and Open return it with one reference; the
// last Release closes it. All methods but Entries are safe for concurrent use.
type Dir struct {
	fd      int
	refs    atomic.Int32
	devices atomic.Int32 // result of mayHoldDevices
	noAtime atomic.Bool  // O_NOATIME was refused once, so other files here will refuse it too
	noDev   noDevOpener  // the same directory on a mount without devices
	ioctx   IOContext
	host    *host // facts about the kernel, shared by all directories below one OpenDir
}

// OpenDir is IOContext.OpenDir of the zero IOContext.
func OpenDir(path string) (*Dir, error) { return IOContext{}.OpenDir(path) }

// OpenSearchable is IOContext.OpenSearchable of the zero IOContext.
func OpenSearchable(path string) (*Dir, error) { return IOContext{}.OpenSearchable(path) }

// OpenDir opens a source root or a restore target by its path, following symbolic links. Only OpenDir and
// OpenSearchable look up paths.
func (d IOContext) OpenDir(path string) (*Dir, error) { return d.open(path, unix.O_RDONLY) }

// OpenSearchable is OpenDir for a directory that needs only search permission: its entries can be opened by name, but
// Entries may fail.
func (d IOContext) OpenSearchable(path string) (*Dir, error) {
	dir, err := d.OpenDir(path)
	if err == nil || !errors.Is(err, unix.EACCES) {
		return dir, err
	}
	if way, wayErr := d.open(path, searchOnly); wayErr == nil {
		return way, nil
	}
	return nil, err
}

func (d IOContext) open(path string, flags int) (*Dir, error) {
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

func openat(dirfd int, name string, flags int) (int, error) { return openatMode(dirfd, name, flags, 0) }

func newDir(fd int, h *host, door IOContext) *Dir {
	d := &Dir{fd: fd, host: h, ioctx: door}
	d.refs.Store(1)
	h.retain()
	return d
}

// Open opens the directory name. A symbolic link, or anything else that is not a directory, is ErrNotDir.
func (d *Dir) Open(name string) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, wrap("open directory", name, err)
	}
	grant, err := d.ioctx.begin(iopolicy.Metadata, 0)
	if err != nil {
		return nil, wrap("open directory", name, err)
	}
	fd, err := d.openRead(name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	grant.End(0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("open directory %q: %w (%w)", name, ErrNotDir, err)
	}
	if err != nil {
		return nil, wrap("open directory", name, err)
	}
	return newDir(fd, d.host, d.ioctx), nil
}

// Lstat fills st for the entry name, or for the directory if name is ".". It does not allocate.
func (d *Dir) Lstat(name string, st *Stat) error {
	err := checkNameOrSelf(name)
	if err == nil {
		var grant iopolicy.Grant
		if grant, err = d.ioctx.begin(iopolicy.Metadata, 0); err == nil {
			err = d.lstat(name, st)
			grant.End(0)
		}
	}
	return wrap("stat", name, err)
}

// Fstat returns the status of the directory itself.
func (d *Dir) Fstat() (Stat, error) {
	var st Stat
	if err := d.ioctx.do(iopolicy.Metadata, func() error { return fstat(d.fd, &st) }); err != nil {
		return Stat{}, fmt.Errorf("stat open directory: %w", err)
	}
	return st, nil
}

// Gone reports whether name no longer leads to an object of this type and inode number. Errors of the file system alone
// are no proof: a network file system may return them for every file after the server restarted.
func (d *Dir) Gone(name string, typ tree.Type, ino uint64) bool {
	var st Stat
	if err := d.Lstat(name, &st); err != nil {
		return errors.Is(err, unix.ENOENT)
	}
	return st.Type != typ || st.Ino != ino
}

// Retain adds a reference.
func (d *Dir) Retain() { d.refs.Add(1) }

// Release drops a reference; the last one closes the directory. It panics if there is none, since a second close could
// hit another file's descriptor.
func (d *Dir) Release() {
	switch n := d.refs.Add(-1); {
	case n == 0:
		d.noDev.close() // first, so that the file system is never kept busy by a hidden mount
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
		return "", wrap("read link", name, err)
	}
	return d.ioctx.readlink(d.fd, name, name)
}
