package nodev

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mounts are the copies that are in use, one for each mount. The zero value has none. It may be used by several goroutines.
type Mounts struct {
	refused atomic.Bool // we may not make any
	mu      sync.Mutex
	copies  map[int]*mount
}

// mount is a copy. It lasts no longer than the directories opened in it: it would keep its file system busy, unseen, after
// that was unmounted.
type mount struct {
	id    int // of the mount that it is a copy of
	fd    int // of a directory in it
	users int
}

// Dir is a directory opened a second time.
type Dir struct {
	fd     int
	mount  *mount
	mounts *Mounts
}

// Open opens the directory fd a second time. The Dir must be closed before fd is.
func (m *Mounts) Open(fd int) (*Dir, error) {
	if m.refused.Load() {
		return nil, ErrMissing
	}
	handle, id, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	from, err := m.use(id, fd)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			m.refused.Store(true)
		}
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	again, err := unix.OpenByHandleAt(from.fd, handle, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		m.leave(from)
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return &Dir{fd: again, mount: from, mounts: m}, nil
}

// FD is the descriptor, good for looking up names only.
func (d *Dir) FD() int { return d.fd }

// OpenFile opens an entry for reading, not what is mounted on it, a symbolic link leads to, or the other end of a fifo
// would have to be waited for.
func (d *Dir) OpenFile(name string) (int, error) {
	var path [unix.NAME_MAX + 1]byte
	if len(name) >= len(path) {
		return -1, fmt.Errorf("%w: %w", ErrMissing, unix.ENAMETOOLONG)
	}
	copy(path[:], name)
	how := unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NOATIME |
			unix.O_LARGEFILE,
		Resolve: unix.RESOLVE_NO_XDEV,
	}
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(d.fd), uintptr(unsafe.Pointer(&path[0])),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}

// Close closes the directory, and with the last one of its mount the copy.
func (d *Dir) Close() {
	_ = unix.Close(d.fd)
	d.fd = -1
	d.mounts.leave(d.mount)
}

// use returns the copy of mount id, on which the directory fd lies.
func (m *Mounts) use(id, fd int) (*mount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.copies[id]; known != nil {
		known.users++
		return known, nil
	}
	root, err := clone(fd)
	if err != nil {
		return nil, err
	}
	if m.copies == nil {
		m.copies = map[int]*mount{}
	}
	made := &mount{id: id, fd: root, users: 1}
	m.copies[id] = made
	return made, nil
}

func (m *Mounts) leave(from *mount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from.users--; from.users == 0 {
		_ = unix.Close(from.fd)
		delete(m.copies, from.id)
	}
}

// clone makes a copy of the mount of the directory fd, and returns that directory in it.
func clone(fd int) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("copy mount: %w", err)
	}
	defer unix.Close(tree)
	// Private: what is mounted elsewhere from now on does not appear in the copy.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return -1, fmt.Errorf("forbid devices on the copy of a mount: %w", err)
	}
	// Handles are opened relative to a directory that is open, which a tree is not. It is dissolved when the last
	// descriptor of it is closed, and this is a descriptor of the mount only.
	root, err := unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err != nil {
		return -1, fmt.Errorf("open the copy of a mount: %w", err)
	}
	return root, nil
}
