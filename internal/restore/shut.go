package restore

import (
	"maps"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// widened are the directories of the target that are ours and shut us out, until they were given more permissions for the
// time that we work in them.
type widened struct {
	never bool // a dry run changes nothing

	mu  sync.Mutex
	was map[*dir]uint32 // the permissions that they had
}

// widen gives us all rights to d, the entry name of in or in itself. False: that changes nothing.
func (w *widened) widen(d *dir, in *localfs.Dir, name string) bool {
	if w.never {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.was[d]; ok { // by somebody else, since we were refused
		return true
	}
	was, ok := access.Widen(in, name)
	if ok {
		if w.was == nil {
			w.was = map[*dir]uint32{}
		}
		w.was[d] = was
	}
	return ok
}

// take forgets d, and returns the permissions it had.
func (w *widened) take(d *dir) (was uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, ok = w.was[d]
	delete(w.was, d)
	return was, ok
}

// shut gives d, if it was widened, the permissions back that it had.
func (j *job) shut(d *dir) error {
	was, ok := j.handles.widened.take(d)
	if !ok {
		return nil
	}
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	return access.Set(h, ".", tree.Dir, was)
}

// shutAll does so with all that are left.
func (j *job) shutAll() {
	w := &j.handles.widened
	w.mu.Lock()
	left := maps.Clone(w.was)
	w.mu.Unlock()
	for d := range left {
		_ = j.shut(d)
	}
}

// leave is for who has only looked into d.
func (j *job) leave(d *dir) {
	if err := j.shut(d); err != nil {
		j.tell(d.path, "set permissions back", err)
	}
	j.handles.drop(d)
}
