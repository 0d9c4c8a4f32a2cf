package restore

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// maxHandles is how many directories of the target are kept open. A tree may be deeper than a process may have files
// open, and a directory waits for its last file while others are filled; one that is needed again is opened again.
const maxHandles = 128

// handles are the open directories of the target. The base stays open to the end.
type handles struct {
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
	h.mu.Lock()
	defer h.mu.Unlock()
	var way []*dir
	at := h.base
	for up := d; up.parent != nil; up = up.parent {
		if e, ok := h.open[up]; ok {
			h.used.MoveToFront(e)
			at = e.Value.(*handle).dir
			break
		}
		way = append(way, up)
	}
	for i := len(way) - 1; i >= 0; i-- {
		next, err := at.Open(way[i].name)
		if err == nil {
			err = way[i].check(next)
		}
		if err != nil {
			return nil, err
		}
		h.put(way[i], next)
		at = next
	}
	at.Retain()
	return at, nil
}

// check makes sure that an open directory is d.
func (d *dir) check(opened *localfs.Dir) error {
	st, err := opened.Fstat()
	if err == nil && d.ino != 0 && (st.Ino != d.ino || st.Dev != d.dev) {
		err = fmt.Errorf("open directory %q again: %w", d.path, errSwapped)
	}
	if err != nil {
		opened.Release()
	}
	return err
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
	for h.used.Len() > maxHandles {
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

// close closes everything.
func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.used.Len() > 0 {
		h.remove(h.used.Back())
	}
	if h.base != nil {
		h.base.Release()
		h.base = nil
	}
}
