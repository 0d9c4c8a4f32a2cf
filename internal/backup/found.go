package backup

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
)

// found is what a name turned out to stand for when it was opened.
type found uint8

const (
	isRead  found = iota // the file that was scanned; its result is complete, whatever it is
	isLarge              // a file too large for a batch; nothing was done
	isOther              // gone or another file than was scanned; its result is complete
)

// meaning tells whether f, which was opened under the name of e, is the file that was scanned.
func meaning(e *scan.Entry, f *localfs.File) found {
	if e.Ino != f.Opened().Ino {
		return isOther
	}
	return isRead
}

// known returns which file e was when it was scanned. Of one on another file system than its directory only the inode is
// known. Where a file that changes while it is read may be read once only, no time is told: without a look before that, one
// that changed since the scan could not be told from it.
func (p *pipeline) known(j *job, e *scan.Entry) localfs.Known {
	if e.Mount {
		return localfs.Known{}
	}
	return localfs.Known{
		Dev: j.dir.Dev, Ino: e.Ino, Times: p.src.Reading.repeats() && !j.dir.FS.Pseudo,
		Size: e.Size, Mtime: e.ModTime(), Ctime: e.Changed(),
	}
}

// replaced reports whether a file that was presumed to be the one that was scanned is not, or has changed since, or could
// not be read: what was read then says nothing.
func (r *reader) replaced(o *opened, w *localfs.Whole) bool {
	return o.file.Presumed() && (w.Err != nil || w.FactsErr != nil || !o.file.Same(&w.Facts.Stat))
}

// readAfresh opens a file that was replaced as one of which nothing is known, and reads it. It reports false if what there
// is to say of the file is booked.
func (r *reader) readAfresh(ctx context.Context, b *batch, o *opened, w *localfs.Whole, pc *piece) (found, bool) {
	e := &b.job.dir.Entries[o.entry]
	r.files.Done(o.file)
	o.file = nil
	f, err := r.files.Open(b.dir, e.Name, localfs.Known{})
	if err != nil {
		return r.openFailed(b, o.entry, err), false
	}
	o.file, o.what = f, meaning(e, f)
	if o.before, err = r.before(ctx, f, b.job, o.entry, 0); err != nil {
		if context.Cause(ctx) == nil {
			r.unreadable(b.job, o.entry, b.job.dir.Join(e.Name), "look at", err)
		}
		return o.what, false
	}
	room, size := pc.buf[pc.n:], expected(b.job, &o.before)
	if size >= uint64(len(room)) || size > smallFile {
		return isLarge, false
	}
	*w = localfs.Whole{File: f, Size: size, At: pc.n}
	if w.N, w.Err = f.ReadWhole(room, size); w.Err == nil {
		w.Facts, w.FactsErr = f.Facts()
	}
	return o.what, true
}
