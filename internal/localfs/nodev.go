package localfs

import "sync/atomic"

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
