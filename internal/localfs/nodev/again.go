package nodev

import "sync/atomic"

// Again is a directory that is opened a second time when a second file is opened in it: it pays from then on. The zero
// value is one that was not yet. It may be used by several goroutines.
type Again struct {
	files atomic.Int32 // asked for until then
	dir   atomic.Pointer[Dir]
}

// States of Again.files besides their number.
const (
	paysFrom = 2
	avoided  = -1 << 30
)

// OpenFile is Dir.OpenFile for the directory fd, which is the same each time. ErrMissing: it is not to be had, or does not
// pay yet.
func (a *Again) OpenFile(m *Mounts, fd int, name string) (int, error) {
	if a.files.Load() < 0 {
		return -1, ErrMissing
	}
	dir := a.dir.Load()
	if dir == nil {
		if a.files.Add(1) != paysFrom {
			return -1, ErrMissing
		}
		var err error
		if dir, err = m.Open(fd); err != nil {
			a.Avoid()
			return -1, err
		}
		a.dir.Store(dir)
	}
	return dir.OpenFile(name)
}

// Expect says how many files will be asked for: if it is known to pay, there is no need to find out.
func (a *Again) Expect(files int) {
	if files >= paysFrom {
		a.files.CompareAndSwap(0, paysFrom-1)
	}
}

// Opened reports whether the directory was opened a second time, and may be used.
func (a *Again) Opened() bool { return a.dir.Load() != nil && a.files.Load() >= 0 }

// Avoid has every OpenFile from now on return ErrMissing.
func (a *Again) Avoid() { a.files.Store(avoided) }

// Close closes the second one. It comes before the directory itself is closed, and nobody uses it meanwhile.
func (a *Again) Close() {
	if dir := a.dir.Swap(nil); dir != nil {
		dir.Close()
	}
}
