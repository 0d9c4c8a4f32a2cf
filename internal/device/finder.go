package device

import (
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Finder answers as Of and At do, and asks the system once about each file system that it meets. It is for one run: a file
// system that appears meanwhile is asked about, but one that takes the device number of another that was unmounted is
// taken for it. It is safe for concurrent use.
type Finder struct {
	view *view

	mu  sync.Mutex
	met map[uint64]Info // by the number of the file system
}

// NewFinder returns one that has met nothing yet.
func NewFinder() *Finder { return newFinder(hostView()) }

func newFinder(v *view) *Finder { return &Finder{view: v, met: map[uint64]Info{}} }

// Of is Of.
func (f *Finder) Of(path string) (Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.of(path)
	if err != nil {
		return Info{}, fmt.Errorf("find device of %s: %w", path, err)
	}
	return info, nil
}

// of looks behind what is there, or above it. Most are directories, which open by any path.
func (f *Finder) of(path string) (Info, error) {
	if dir, err := localfs.OpenWay(path); err == nil {
		defer dir.Release()
		return f.at(dir)
	}
	path, err := nearest(path)
	if err != nil {
		return Info{}, err
	}
	o, err := lookAt(path)
	if err != nil {
		return Info{}, err
	}
	return f.tell(&o), nil
}

// At is At.
func (f *Finder) At(dir *localfs.Dir) (Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.at(dir)
	if err != nil {
		return Info{}, fmt.Errorf("find device of an open directory: %w", err)
	}
	return info, nil
}

// at recalls the file system of an open directory, or asks about it.
func (f *Finder) at(dir *localfs.Dir) (Info, error) {
	st, err := dir.Fstat()
	if err != nil {
		return Info{}, err
	}
	if info, known := f.met[st.Dev]; known {
		return info, nil
	}
	var o object
	if err := o.ask(dir); err != nil {
		return Info{}, err
	}
	return f.tell(&o), nil
}

// tell looks behind an object, and remembers its file system. Of a file it does not: another may be mounted over its place.
func (f *Finder) tell(o *object) Info {
	info := f.view.inform(o)
	if o.stat.Type == tree.Dir {
		f.met[o.stat.Dev] = info
	}
	return info
}
