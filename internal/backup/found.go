package backup

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
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

// openFailed books a file that could not be opened, with what can be known of it from outside.
func (p *pipeline) openFailed(b *batch, i uint32, err error) found {
	e, r := &b.job.dir.Entries[i], &b.job.results[i]
	if p.unopened(b.job, i, b.dir, "open", err) {
		return isOther
	}
	if err, _ := p.attributes(r.more(), b.dir, e.Name, e.Type); err != nil && !errors.Is(err, localfs.ErrStopped) {
		p.Ledger.Note(b.job.dir.Join(e.Name), attributesOp, err)
	}
	if errors.Is(err, localfs.ErrVanished) || errors.Is(err, localfs.ErrNotRegular) {
		return isOther // by another name it may be to be had
	}
	return isRead
}

// gone books an entry that is not there any more, or is something else, as note says. That is no failure: it is as if the
// backup had come a moment later. But a source was named, and is missed.
func (p *pipeline) gone(j *job, i uint32, note error) {
	path := j.dir.Join(j.dir.Entries[i].Name)
	j.results[i].gone = true
	if j.dir.Picked {
		p.failed(path, "read", note)
		return
	}
	p.Ledger.Note(path, "read", note)
}

// unopened books an entry of dir that could not be opened, and reports whether it is gone.
func (p *pipeline) unopened(j *job, i uint32, dir *localfs.Dir, op string, err error) bool {
	e, note := &j.dir.Entries[i], errVanished
	switch {
	case errors.Is(err, localfs.ErrVanished):
	case errors.Is(err, localfs.ErrNotRegular), e.Type == tree.Symlink && errors.Is(err, syscall.EINVAL): // no link any more
		note = errReplaced
	default:
		p.unreadable(j, i, j.dir.Join(e.Name), op, err)
		return false
	}
	if dir.Gone(e.Name, e.Type, e.Ino) {
		p.gone(j, i, note)
		return true
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = fmt.Errorf("%w: %w", errThere, errno)
	}
	p.unreadable(j, i, j.dir.Join(e.Name), op, err)
	return false
}
