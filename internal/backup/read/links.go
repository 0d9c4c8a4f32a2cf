package read

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// links makes sure that a file with several names is read once per run. The first name that must be read reads it; the
// others take its result, at once or when it is there. If the first name is gone or means another file by then, the
// next one reads.
type links struct {
	mu    sync.Mutex
	files map[linkKey]*linked
}

// linkKey identifies a file among its names. An inode number can be used for another file once the last name of the
// first is removed, even while the run goes on; so the key contains a time.
type linkKey struct {
	dev, ino uint64
	time     tree.Time
}

// linkKeyOf returns the key of e, an entry on the file system of its directory. The time is the birth time, or where
// the file system has none, the change time: then a file that changes during the run is read once for each time.
func linkKeyOf(dev uint64, e *scan.Entry) linkKey {
	if born, ok := e.Born(); ok {
		return linkKey{dev, e.Ino, born}
	}
	return linkKey{dev, e.Ino, e.Changed()}
}

// linked is one file with several names. It is dropped when all its names have been seen, so memory is bounded by the
// files that are only partly inside the sources.
type linked struct {
	key     linkKey
	result  *Result    // nil while the first name is being read
	entry   scan.Entry // of the first name, as it was when it had been read
	waiters []waiter
	unseen  uint32
}

// waiter is an entry whose content another name of the same file provides.
type waiter struct {
	dir   *Dir
	entry uint32
}

// take copies the entry and the result of the name that was read: the file may have changed since this name was
// scanned, and size and content must match.
func (w waiter) take(f *linked) {
	w.dir.Results[w.entry] = *f.result
	e := &w.dir.Entries[w.entry]
	name, fs := e.Name, e.FS
	*e = f.entry
	e.Name, e.FS = name, fs
}

// join reports whether another name provides the content of w. If it is still being read, w becomes a part of its
// directory until it is there.
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
		w.dir.Results[w.entry].extra().link = f
		return false
	}
	if f.unseen > 0 { // zero: a name was added after the scan
		f.unseen--
	}
	if f.result == nil {
		w.dir.Parts.Begin()
		f.waiters = append(f.waiters, w)
		return true
	}
	w.take(f)
	w.dir.Parts.Stored(w.entry)
	l.drop(f)
	return true
}

// publish gives the result of the name that was read to the waiting names, and returns them.
func (l *links) publish(f *linked, r *Result, e *scan.Entry) []waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *r
	f.result, f.entry = &kept, *e
	waiters := f.waiters
	f.waiters = nil
	for _, w := range waiters {
		w.take(f)
	}
	l.drop(f)
	return waiters
}

func (l *links) drop(f *linked) {
	if f.unseen == 0 && f.result != nil {
		delete(l.files, f.key)
	}
}

// next makes the first waiting name the one that reads. If there is none, the file is dropped, and the next name that
// is scanned reads it.
func (l *links) next(f *linked) (w waiter, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(f.waiters) == 0 {
		delete(l.files, f.key)
		return waiter{}, false
	}
	w, f.waiters = f.waiters[0], f.waiters[1:]
	w.dir.Results[w.entry].extra().link = f
	return w, true
}

// publish is called once for each regular file that was read, when its result is complete. It ends the waiting names.
func (s *Stage) publish(ctx context.Context, d *Dir, i uint32) error {
	r := &d.Results[i]
	d.Parts.Stored(i)
	if r.Extra == nil || r.Extra.link == nil {
		return nil
	}
	for _, w := range s.links.publish(r.Extra.link, r, &d.Entries[i]) {
		w.dir.Parts.Stored(w.entry)
		if err := w.dir.Parts.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// handOver takes from r the duty to read for the other names of its file, and returns the file; nil if it had none.
func (r *Result) handOver() *linked {
	if r.Extra == nil {
		return nil
	}
	f := r.Extra.link
	r.Extra.link = nil
	return f
}

// readNext reads f by another of its names, when the one to be read is gone or means another file. A nil f has no other
// names.
func (r *Reader) readNext(ctx context.Context, f *linked) error {
	for f != nil {
		w, ok := r.stage.links.next(f)
		if !ok {
			return nil
		}
		handle, err := w.dir.Reopen()
		if err == nil {
			err = r.large(ctx, w.dir, handle, w.entry)
			handle.Release()
			return err
		}
		w.dir.Results[w.entry].handOver()
		switch away := errors.Is(err, localfs.ErrVanished) || errors.Is(err, localfs.ErrNotDir); {
		case away && !errors.Is(err, syscall.ESTALE): // a stale handle does not show what is gone
			r.stage.gone(w.dir, w.entry, ErrVanished)
		default:
			r.stage.unreadable(w.dir, w.entry, "open", err)
		}
		if err := w.dir.Parts.End(ctx); err != nil {
			return err
		}
	}
	return nil
}
