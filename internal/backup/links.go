package backup

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// links sees to it that a file with several names is read once per run. The first name that must be read reads it; the
// others take over its result, at once or when it is there.
type links struct {
	mu    sync.Mutex
	files map[linkKey]*linked
}

type linkKey struct{ dev, ino uint64 }

// linked is one file with several names. It is forgotten when all its names have been seen, so that memory follows the
// files that are only partly inside the sources.
type linked struct {
	result  *result // nil while the first name is being read
	waiters []waiter
	unseen  uint32
}

// waiter is an entry whose content another name of the same file provides.
type waiter struct {
	job   *job
	entry uint32
}

// join reports whether somebody else reads, or has read, the content of w; then w is served without further ado. The
// job of w is held open until it is.
func (l *links) join(key linkKey, w waiter, names uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[key]
	if f == nil {
		if l.files == nil {
			l.files = map[linkKey]*linked{}
		}
		l.files[key] = &linked{unseen: names - 1}
		return false
	}
	f.unseen--
	if f.result == nil {
		w.job.pending.Add(1)
		f.waiters = append(f.waiters, w)
		return true
	}
	w.job.results[w.entry] = *f.result
	l.forget(key, f)
	return true
}

// settle publishes the result of the first name and returns who waited for it.
func (l *links) settle(key linkKey, r *result) []waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[key]
	if f == nil {
		return nil
	}
	kept := *r
	f.result = &kept
	waiters := f.waiters
	f.waiters = nil
	for _, w := range waiters {
		w.job.results[w.entry] = kept
	}
	l.forget(key, f)
	return waiters
}

func (l *links) forget(key linkKey, f *linked) {
	if f.unseen == 0 && f.result != nil {
		delete(l.files, key)
	}
}

// share is called once for every regular file that was read, when its result is complete.
func (p *pipeline) share(ctx context.Context, j *job, entry uint32) error {
	e := &j.dir.Entries[entry]
	if e.Type != tree.File || e.Links < 2 {
		return nil
	}
	for _, w := range p.links.settle(linkKey{j.dir.Dev, e.Ino}, &j.results[entry]) {
		if err := p.done(ctx, w.job); err != nil {
			return err
		}
	}
	return nil
}
