package read

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// openResult is what a name stands for when it is opened.
type openResult uint8

const (
	isScanned openResult = iota // the file that was scanned; its result is complete, also if it could not be read
	isLarge                     // a file too large for a portion; nothing was done
	isOther                     // gone or another file than was scanned; its result is complete
)

// compareOpened compares f, which was opened under the name of e, with what was scanned.
func compareOpened(e *scan.Entry, f *localfs.File) openResult {
	if e.Ino != f.Opened().Ino {
		return isOther
	}
	return isScanned
}

// known returns what the scan found out about e. Of an entry on another file system than its directory, the device is
// unknown.
func known(d *Dir, e *scan.Entry) localfs.Known {
	if e.Mount() {
		return localfs.Known{}
	}
	return localfs.Known{Dev: d.Dev, Ino: e.Ino}
}

// attempt reads an open small file by itself, behind what is in p. It returns false if the outcome is recorded.
func (r *Reader) attempt(ctx context.Context, d *Dir, o *opened, w *localfs.BatchFile, p *Piece, try int,
) (_ openResult, ok bool) {
	s := r.stage
	var err error
	if o.before, err = s.before(ctx, o.file, d, o.entry, try); err != nil {
		if context.Cause(ctx) == nil {
			s.unreadable(d, o.entry, statusOp, err)
		}
		return o.state, false
	}
	free, size := p.Buf[p.Len:], expected(d, &o.before)
	if size >= uint64(len(free)) || size > SmallFile {
		return isLarge, false
	}
	*w = localfs.BatchFile{File: o.file, Size: size, At: p.Len}
	if w.N, w.Err = o.file.ReadWhole(free, size); w.Err == nil {
		w.Facts, w.FactsErr = o.file.Facts()
	}
	return o.state, true
}

// openAgain opens e once more if its name was missing and has returned: a name may be removed and given to the same
// file again. A file system that goes on to contradict itself is reported.
func openAgain(handle *localfs.Dir, e *scan.Entry, open func() (*localfs.File, error)) (*localfs.File, error) {
	const attempts = 3
	f, err := open()
	for range attempts - 1 {
		if !errors.Is(err, localfs.ErrVanished) || handle.Gone(e.Name, e.Type, e.Ino) {
			break
		}
		f, err = open()
	}
	return f, err
}

// openFailed records a file that could not be opened, with the attributes that can be read by its name.
func (s *Stage) openFailed(d *Dir, handle *localfs.Dir, i uint32, err error) openResult {
	e, r := &d.Entries[i], &d.Results[i]
	if s.unopened(d, i, handle, "open", err) {
		return isOther
	}
	if err, _ := s.attributes(r.extra(), handle, e.Name, e.Type); err != nil && !errors.Is(err, localfs.ErrStopped) {
		s.Ledger.Note(d.path(i), xattrOp, err)
	}
	if errors.Is(err, localfs.ErrVanished) || errors.Is(err, localfs.ErrNotRegular) {
		return isOther // another name of it may be readable
	}
	return isScanned
}

// gone records that entry i vanished or was replaced before it was read. Inside a source that is only a note, as if the
// backup had come a moment later; an entry that is itself a source is a failure.
func (s *Stage) gone(d *Dir, i uint32, note error) {
	d.Results[i].Gone = true
	if d.Picked {
		s.fail(d.path(i), "read", note)
		return
	}
	s.Ledger.Note(d.path(i), "read", note)
}

// unopened records an entry that could not be opened, and reports whether it is gone.
func (s *Stage) unopened(d *Dir, i uint32, handle *localfs.Dir, op string, err error) bool {
	e, note := &d.Entries[i], ErrVanished
	switch {
	case errors.Is(err, localfs.ErrVanished):
	case errors.Is(err, localfs.ErrNotRegular), e.Type == tree.Symlink && errors.Is(err, syscall.EINVAL):
		// not a link any more
		note = ErrReplaced
	default:
		s.unreadable(d, i, op, err)
		return false
	}
	if handle.Gone(e.Name, e.Type, e.Ino) {
		s.gone(d, i, note)
		return true
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = fmt.Errorf("%w: %w", errThere, errno)
	}
	s.unreadable(d, i, op, err)
	return false
}
