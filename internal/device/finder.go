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
	if info, known := f.recall(path); known {
		return info, nil
	}
	info, err := f.of(path)
	if err != nil {
		return Info{}, fmt.Errorf("find device of %s: %w", path, err)
	}
	return info, nil
}

// of finds what is there, or above it, and looks behind it.
func (f *Finder) of(path string) (Info, error) {
	path, err := nearest(path)
	if err != nil {
		return Info{}, err
	}
	if info, known := f.recall(path); known {
		return info, nil
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
	if info, known := f.behindOpen(dir); known {
		return info, nil
	}
	var o object
	if err := o.ask(dir); err != nil {
		return Info{}, fmt.Errorf("find device of an open directory: %w", err)
	}
	return f.tell(&o), nil
}

// recall returns what is known of the file system of a directory. Of a file it knows nothing: another may be mounted over
// its place.
func (f *Finder) recall(path string) (Info, bool) {
	if len(f.met) == 0 {
		return Info{}, false
	}
	dir, err := localfs.OpenWay(path)
	if err != nil {
		return Info{}, false
	}
	defer dir.Release()
	return f.behindOpen(dir)
}

func (f *Finder) behindOpen(dir *localfs.Dir) (Info, bool) {
	st, err := dir.Fstat()
	if err != nil {
		return Info{}, false
	}
	info, known := f.met[st.Dev]
	return info, known
}

// tell looks behind an object, and remembers its file system.
func (f *Finder) tell(o *object) Info {
	info := f.view.inform(o)
	if o.stat.Type == tree.Dir {
		f.met[o.stat.Dev] = info
	}
	return info
}
