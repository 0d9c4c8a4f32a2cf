package backup

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// links sees to it that a file with several names is read once per run. The first name that must be read reads it; the
// others take over its result, at once or when it is there. If that name is gone or means another file when its turn
// comes, the next one reads.
type links struct {
	mu    sync.Mutex
	files map[linkKey]*linked
}

// linkKey tells the names of one file. An inode number is free for another file as soon as the last name of one is gone,
// while the run goes on; so there is a time beside it.
type linkKey struct {
	dev, ino uint64
	time     tree.Time
}

// linkKeyOf returns the key of e, an entry on the file system of its directory. The time is when the file was born, or
// where the file system does not tell that, when it changed last: then one that changes while the run goes on is read once
// for each time.
func linkKeyOf(dev uint64, e *scan.Entry) linkKey {
	if born, ok := e.Born(); ok {
		return linkKey{dev, e.Ino, born}
	}
	return linkKey{dev, e.Ino, e.Changed()}
}

// linked is one file with several names. It is forgotten when all its names have been seen, so that memory follows the
// files that are only partly inside the sources.
type linked struct {
	key     linkKey
	result  *result    // nil while the first name is being read
	entry   scan.Entry // of the first name, as it was when it had been read
	waiters []waiter
	unseen  uint32
}

// waiter is an entry whose content another name of the same file provides.
type waiter struct {
	job   *job
	entry uint32
}

// take makes the entry what the read one is: the file may have changed since the entry was scanned, and size and content
// must belong to each other.
func (w waiter) take(f *linked) {
	w.job.results[w.entry] = *f.result
	e := &w.job.dir.Entries[w.entry]
	name, mount := e.Name, e.Mount
	*e = f.entry
	e.Name, e.Mount = name, mount
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
		f = &linked{key: key, unseen: names - 1}
		l.files[key] = f
		w.job.results[w.entry].more().link = f
		return false
	}
	if f.unseen > 0 { // more names than it said: it was linked again meanwhile
		f.unseen--
	}
	if f.result == nil {
		w.job.pending.Add(1)
		f.waiters = append(f.waiters, w)
		return true
	}
	w.take(f)
	l.forget(f)
	return true
}

// settle publishes the result of the name that read and returns who waited for it.
func (l *links) settle(f *linked, r *result, e *scan.Entry) []waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *r
	f.result, f.entry = &kept, *e
	waiters := f.waiters
	f.waiters = nil
	for _, w := range waiters {
		w.take(f)
	}
	l.forget(f)
	return waiters
}

func (l *links) forget(f *linked) {
	if f.unseen == 0 && f.result != nil {
		delete(l.files, f.key)
	}
}

// next makes the first of those who wait the one that reads. If there is none, the file is forgotten, and the next name
// to be scanned reads it.
func (l *links) next(f *linked) (w waiter, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(f.waiters) == 0 {
		delete(l.files, f.key)
		return waiter{}, false
	}
	w, f.waiters = f.waiters[0], f.waiters[1:]
	w.job.results[w.entry].more().link = f
	return w, true
}

// share is called once for every regular file that was read, when its result is complete.
func (p *pipeline) share(ctx context.Context, j *job, entry uint32) error {
	r := &j.results[entry]
	if r.extra == nil || r.extra.link == nil {
		return nil
	}
	for _, w := range p.links.settle(r.extra.link, r, &j.dir.Entries[entry]) {
		if err := p.done(ctx, w.job); err != nil {
			return err
		}
	}
	return nil
}

// unlink takes from r the duty to be read for the other names of its file, and returns the file; nil if it had none.
func (r *result) unlink() *linked {
	if r.extra == nil {
		return nil
	}
	f := r.extra.link
	r.extra.link = nil
	return f
}

// readNext reads f by another of its names, when the one that was to be read is gone or stands for another file now.
// A nil f has no other names.
func (p *pipeline) readNext(ctx context.Context, f *linked, clock *report.Clock) error {
	for f != nil {
		w, ok := p.links.next(f)
		if !ok {
			return nil
		}
		dir, err := w.job.dir.Reopen()
		if err == nil {
			err = p.readLarge(ctx, &batch{job: w.job, dir: dir, entries: []uint32{w.entry}, large: true}, clock)
			dir.Release()
			return err
		}
		w.job.results[w.entry].unlink()
		switch away := errors.Is(err, localfs.ErrVanished) || errors.Is(err, localfs.ErrNotDir); {
		case away && !errors.Is(err, syscall.ESTALE): // of which nobody knows what is gone
			p.gone(w.job, w.entry, errVanished)
		default:
			p.unreadable(w.job, w.entry, w.job.dir.Join(w.job.dir.Entries[w.entry].Name), "open", err)
		}
		if err := p.done(ctx, w.job); err != nil {
			return err
		}
	}
	return nil
}
