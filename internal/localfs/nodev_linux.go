package localfs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// noDevMounts holds one copy for each mount in use. A copy contains no other mounts, so a name can lead to another
// object than outside; callers compare what they opened with what they wanted. It needs root, Linux 5.12, and a file
// system with handles. It is safe for concurrent use.
type noDevMounts struct {
	denied atomic.Bool // not permitted
	mu     sync.Mutex
	copies map[int]*noDevMount
}

// noDevMount is a copy. It is closed with its last directory, since it would keep an unmounted file system busy.
type noDevMount struct {
	id    int // of the original mount
	fd    int // of a directory in it
	users int
}

// noDevDir is a directory in a copy.
type noDevDir struct {
	fd     int
	mount  *noDevMount
	mounts *noDevMounts
}

// openCopy opens the directory fd in a copy. The result must be closed before fd is.
func (m *noDevMounts) openCopy(fd int) (*noDevDir, error) {
	if m.denied.Load() {
		return nil, errNoCopy
	}
	handle, id, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	from, err := m.use(id, fd)
	if err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			m.denied.Store(true)
		}
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	again, err := unix.OpenByHandleAt(from.fd, handle, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		m.release(from)
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	return &noDevDir{fd: again, mount: from, mounts: m}, nil
}

// openFile opens an entry for reading. It follows neither mounts nor symbolic links and does not block on a fifo.
func (d *noDevDir) openFile(name string, resolve uint64) (int, error) {
	if len(name) > unix.NAME_MAX {
		return -1, fmt.Errorf("%w: %w", errNoCopy, unix.ENAMETOOLONG)
	}
	return openat2(d.fd, name, openUnknown|unix.O_NOATIME, unix.RESOLVE_NO_XDEV|resolve)
}

// close also closes the copy after its last directory.
func (d *noDevDir) close() {
	_ = unix.Close(d.fd)
	d.fd = -1
	d.mounts.release(d.mount)
}

// use returns the copy of mount id, which holds the directory fd.
func (m *noDevMounts) use(id, fd int) (*noDevMount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.copies[id]; known != nil {
		known.users++
		return known, nil
	}
	root, err := cloneMount(fd)
	if err != nil {
		return nil, err
	}
	if m.copies == nil {
		m.copies = map[int]*noDevMount{}
	}
	made := &noDevMount{id: id, fd: root, users: 1}
	m.copies[id] = made
	return made, nil
}

func (m *noDevMounts) release(from *noDevMount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from.users--; from.users == 0 {
		_ = unix.Close(from.fd)
		delete(m.copies, from.id)
	}
}

// cloneMount copies the mount of the directory fd, and returns that directory in the copy.
func cloneMount(fd int) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("copy mount: %w", err)
	}
	defer unix.Close(tree)
	// Private: later mounts do not appear in the copy.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return -1, fmt.Errorf("forbid devices on the copy of a mount: %w", err)
	}
	// Handles are opened relative to an open directory, which a tree is not. The copy ends with the last descriptor in
	// it.
	root, err := unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOATIME, 0)
	if err != nil {
		return -1, fmt.Errorf("open the copy of a mount: %w", err)
	}
	return root, nil
}

// noDevOpener opens regular files without the risk of opening a device that took their name: through a copy of the
// directory's mount with the nodev option, which no other process sees. One openat2 replaces the three calls of
// openPinned. The second file in a directory prepares the copy. It is safe for concurrent use.
type noDevOpener struct {
	files atomic.Int32 // requested before the copy was made
	dir   atomic.Pointer[noDevDir]
}

// Values of noDevOpener.files besides a count.
const (
	noDevFrom    = 2
	noDevAvoided = -1 << 30
)

// openFile opens name in the copy of the directory fd, which is the same in each call. resolve is passed to openat2.
// errNoCopy: there is no copy, or it does not pay yet.
func (a *noDevOpener) openFile(m *noDevMounts, fd int, name string, resolve uint64) (int, error) {
	if a.files.Load() < 0 {
		return -1, errNoCopy
	}
	dir := a.dir.Load()
	if dir == nil {
		if a.files.Add(1) != noDevFrom {
			return -1, errNoCopy
		}
		var err error
		if dir, err = m.openCopy(fd); err != nil {
			a.avoid()
			return -1, err
		}
		a.dir.Store(dir)
	}
	return dir.openFile(name, resolve)
}

// expect announces files, so that the first one prepares the copy.
func (a *noDevOpener) expect(files int) {
	if files >= noDevFrom {
		a.files.CompareAndSwap(0, noDevFrom-1)
	}
}

// avoid makes every later openFile return errNoCopy.
func (a *noDevOpener) avoid() { a.files.Store(noDevAvoided) }

// close must precede closing the directory itself.
func (a *noDevOpener) close() {
	if dir := a.dir.Swap(nil); dir != nil {
		dir.close()
	}
}
