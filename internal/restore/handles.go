package restore

import (
	"container/list"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Bounds for the number of open target directories: a quarter of the process's file limit. A tree may be deeper than
// that; a directory that was closed is opened again when needed.
const (
	minHandles = 128
	maxHandles = 4096
)

func mostHandles() int {
	return min(max(localfs.MaxOpenFiles()/4, minHandles), maxHandles)
}

// handles caches the open directories of the target. The base stays open until the end.
type handles struct {
	gate localfs.Gates
	path string // of the base
	most int    // open directories besides the base

	widened widenedDirs

	mu   sync.Mutex   // guards opened and used of directories, too
	base *localfs.Dir // nil in a dry run without a target
	used list.List    // of *dir, most recently used first
}

// get returns d, open; the caller releases it. Starting at the nearest open ancestor, each directory is opened by its
// name in its parent, so a symbolic link in the target never leads out of it.
func (h *handles) get(d *dir) (*localfs.Dir, error) {
	at, way := h.nearestOpen(d)
	for _, next := range slices.Backward(way) {
		opened, _, err := h.enter(at, next)
		at.Release()
		if err != nil {
			return nil, err
		}
		at = h.addShared(next, opened)
	}
	return at, nil
}

// nearestOpen returns the nearest open ancestor of d, or d, retained, and the closed directories below it, d first.
// Directories are opened without h.mu, since an I/O gate may delay the call.
func (h *handles) nearestOpen(d *dir) (at *localfs.Dir, way []*dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = h.base
	for up := d; up.parent != nil; up = up.parent {
		if up.opened != nil {
			h.used.MoveToFront(up.used)
			at = up.opened
			break
		}
		way = append(way, up)
	}
	at.Retain()
	return at, way
}

// enter opens d in its parent and returns its status. It checks the identity of d if that is known.
func (h *handles) enter(in *localfs.Dir, d *dir) (*localfs.Dir, localfs.Stat, error) {
	opened, err := in.Open(d.node.Name)
	if isDenied(err) && h.widened.widen(d, in, d.node.Name) {
		opened, err = in.Open(d.node.Name)
	}
	if err != nil {
		return nil, localfs.Stat{}, err
	}
	st, err := opened.Fstat()
	if err == nil && d.id != (identity{}) && identityOf(&st) != d.id {
		err = fmt.Errorf("open directory %q again: %w", d.path, errSwapped)
	}
	if err != nil {
		opened.Release()
		return nil, st, err
	}
	if h.gate != nil && d.mountedIn(in, &st) {
		opened.SetPass(h.gate(opened, d.hostPath(h.path)))
	}
	return opened, st, nil
}

// addShared adds d, or returns the handle that another goroutine opened meanwhile. The caller releases the result.
func (h *handles) addShared(d *dir, opened *localfs.Dir) *localfs.Dir {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.opened != nil {
		opened.Release()
		d.opened.Retain()
		return d.opened
	}
	opened.Retain()
	d.opened, d.used = opened, h.used.PushFront(d)
	h.keep(h.most)
	return opened
}

// keep closes directories until no more than n are open.
func (h *handles) keep(n int) {
	for h.used.Len() > n {
		h.remove(h.used.Back().Value.(*dir))
	}
}

// drop closes d if it is open.
func (h *handles) drop(d *dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.opened != nil {
		h.remove(d)
	}
}

func (h *handles) remove(d *dir) {
	h.used.Remove(d.used)
	d.opened.Release()
	d.opened, d.used = nil, nil
}

// ungate lets the cleanup after a cancelled run bypass the I/O gates. No other goroutine may use h.
func (h *handles) ungate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(0)
	h.gate = nil
	if h.base == nil {
		return
	}
	if free, err := h.base.Ungated(); err == nil {
		h.base.Release()
		h.base = free
	}
}

func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(0)
	if h.base != nil {
		h.base.Release()
		h.base = nil
	}
}
