package restore

import (
	"container/list"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
)

// How many directories of the target are kept open: a quarter of the files that the process may have open, within these
// bounds. A tree may be deeper than that, and a directory waits for its last file while others are filled; one that is
// needed again is opened again.
const (
	minHandles = 128
	maxHandles = 4096
)

func mostHandles() int {
	return min(max(localfs.Descriptors()/4, minHandles), maxHandles)
}

// handles are the open directories of the target. The base stays open to the end.
type handles struct {
	gate localfs.Gates
	path string // of the base
	most int    // directories kept open beside it

	widened access.Widened[*dir]

	mu   sync.Mutex
	base *localfs.Dir // nil in a dry run onto nothing
	open map[*dir]*list.Element
	used list.List // of *handle, the last used first
}

type handle struct {
	of  *dir
	dir *localfs.Dir
}

// get returns d, open. The caller releases it. From the nearest directory above that is open the way down is opened name
// by name, so that no link that somebody puts into the target leads out of it.
func (h *handles) get(d *dir) (*localfs.Dir, error) {
	at, way := h.nearest(d)
	for _, next := range slices.Backward(way) {
		opened, err := h.enter(at, next)
		at.Release()
		if err != nil {
			return nil, err
		}
		at = h.keep(next, opened)
	}
	return at, nil
}

// nearest returns the lowest directory above d, or d, that is open, retained, and those below it, d first. What must be
// opened is opened without h.mu: a gate may keep it waiting, and others need what is open.
func (h *handles) nearest(d *dir) (at *localfs.Dir, way []*dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at = h.base
	for up := d; up.parent != nil; up = up.parent {
		if e, ok := h.open[up]; ok {
			h.used.MoveToFront(e)
			at = e.Value.(*handle).dir
			break
		}
		way = append(way, up)
	}
	at.Retain()
	return at, way
}

// enter opens d in the directory it lies in, and makes sure that it is d.
func (h *handles) enter(in *localfs.Dir, d *dir) (*localfs.Dir, error) {
	opened, err := h.open1(in, d)
	if err != nil {
		return nil, err
	}
	st, err := opened.Fstat()
	if err == nil && d.ino != 0 && (st.Ino != d.ino || st.Dev != d.dev) {
		err = fmt.Errorf("open directory %q again: %w", d.path, errSwapped)
	}
	if err != nil {
		opened.Release()
		return nil, err
	}
	if h.gate != nil && d.mountedIn(in, &st) {
		opened.Through(h.gate(opened, d.place(h.path)))
	}
	return opened, nil
}

// open1 opens d, which may have to let us in first.
func (h *handles) open1(in *localfs.Dir, d *dir) (*localfs.Dir, error) {
	opened, err := in.Open(d.name)
	if access.Denied(err) && h.widened.Widen(d, in, d.name) {
		opened, err = in.Open(d.name)
	}
	return opened, err
}

// keep adds d, or takes the one that somebody else has opened meanwhile. The caller releases what it returns.
func (h *handles) keep(d *dir, opened *localfs.Dir) *localfs.Dir {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.open[d]; ok {
		opened.Release()
		opened = e.Value.(*handle).dir
		opened.Retain()
		return opened
	}
	opened.Retain()
	h.put(d, opened)
	return opened
}

// add keeps a directory that was opened.
func (h *handles) add(d *dir, opened *localfs.Dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(d, opened)
}

func (h *handles) put(d *dir, opened *localfs.Dir) {
	if h.open == nil {
		h.open = map[*dir]*list.Element{}
	}
	h.open[d] = h.used.PushFront(&handle{d, opened})
	for h.used.Len() > h.most {
		h.remove(h.used.Back())
	}
}

// drop closes d, if it is open.
func (h *handles) drop(d *dir) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.open[d]; ok {
		h.remove(e)
	}
}

func (h *handles) remove(e *list.Element) {
	kept := h.used.Remove(e).(*handle)
	delete(h.open, kept.of)
	kept.dir.Release()
}

// tidy is for taking away, after a run was called off, what it would leave half done: that waits for nothing. Nobody else
// may be at work.
func (h *handles) tidy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.empty()
	h.gate = nil
	if h.base == nil {
		return
	}
	if free, err := h.base.Tidy(); err == nil {
		h.base.Release()
		h.base = free
	}
}

func (h *handles) empty() {
	for h.used.Len() > 0 {
		h.remove(h.used.Back())
	}
}

// close closes everything.
func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.empty()
	if h.base != nil {
		h.base.Release()
		h.base = nil
	}
}
