package device

import (
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Finder finds what is behind paths, and queries the system once for each file system. It is for one run: a file system
// that takes the device number of an unmounted one is taken for it. It is safe for concurrent use.
type Finder struct {
	view *view

	mu    sync.Mutex
	known map[uint64]Info // by the number of the file system
}

// NewFinder returns an empty one.
func NewFinder() *Finder { return newFinder(hostView()) }

func newFinder(v *view) *Finder { return &Finder{view: v, known: map[uint64]Info{}} }

// Of returns what is behind path. A path that does not exist yet counts as its nearest existing parent. Symbolic links
// are followed. An error means that the path cannot be examined; an undetectable medium is Unknown.
func (f *Finder) Of(path string) (Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.of(path)
	if err != nil {
		return Info{}, fmt.Errorf("find device of %s: %w", path, err)
	}
	return info, nil
}

// of examines what exists of a path. Most are directories, which open by any path.
func (f *Finder) of(path string) (Info, error) {
	if dir, err := localfs.OpenSearchable(path); err == nil {
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
	return f.examine(&o), nil
}

// At returns what is behind an open directory, such as the first one beyond a mount point, without looking up a path.
func (f *Finder) At(dir *localfs.Dir) (Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.at(dir)
	if err != nil {
		return Info{}, fmt.Errorf("find device of an open directory: %w", err)
	}
	return info, nil
}

// at returns the cached file system of an open directory, or queries it.
func (f *Finder) at(dir *localfs.Dir) (Info, error) {
	st, err := dir.Fstat()
	if err != nil {
		return Info{}, err
	}
	if info, known := f.known[st.Dev]; known {
		return info, nil
	}
	var o object
	if err := o.ask(dir); err != nil {
		return Info{}, err
	}
	return f.examine(&o), nil
}

// examine examines an object, and caches the file system of a directory; one mounted over a file is not cached.
func (f *Finder) examine(o *object) Info {
	info := f.view.inform(o)
	if o.stat.Type == tree.Dir {
		f.known[o.stat.Dev] = info
	}
	return info
}
