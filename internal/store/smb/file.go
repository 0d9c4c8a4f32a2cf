package smb

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// moment is how long tidying up may take when the job has ended.
const moment = 3 * time.Second

// file is an open file of one session.
type file struct {
	store *Store
	hold  *session.Hold
	smb   *smb2.File
}

func (s *Store) open(ctx context.Context, h *session.Hold, at string, flags int) (*file, error) {
	f := &file{store: s, hold: h}
	err := s.look(ctx, h, func(share *smb2.Share) (err error) {
		f.smb, err = share.OpenFile(at, flags, fs.ModePerm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// close gives the handle back whether ctx has ended or not, without waiting at the gate: it is a part of the operation
// before. A file that was written is closed by its writer, who looks at the error.
func (f *file) close(ctx context.Context) error {
	if f.smb == nil {
		return nil
	}
	open := f.smb
	f.smb = nil
	ctx, cancel := after(ctx)
	defer cancel()
	return f.hold.Do(ctx, func(*smb2.Share) error { return open.Close() })
}

// done closes a file that was only read. Nothing can be lost by it and nobody waits for the answer: over a long line that
// is one wait less for each file. Until it has come, in keeps others from replacing the file; nil: nobody does.
func (f *file) done(ctx context.Context, in *stay) {
	in.enter()
	f.store.later(func() {
		defer in.leave()
		_ = f.close(ctx)
	})
}

// later has f done without waiting for it, by all means before the end of Close.
func (s *Store) later(f func()) {
	s.mu.Lock()
	if !s.closed {
		s.tidying.Go(f)
		f = func() {}
	}
	s.mu.Unlock()
	f()
}

// stay is a latch that several hold together; release is called when the last of them leaves. A nil one is nobody's.
type stay struct {
	inside  atomic.Int32
	release func()
}

// newStay begins with one inside.
func newStay(release func()) *stay {
	s := &stay{release: release}
	s.enter()
	return s
}

// enter is called by those who are inside already.
func (s *stay) enter() {
	if s != nil {
		s.inside.Add(1)
	}
}

func (s *stay) leave() {
	if s != nil && s.inside.Add(-1) == 0 {
		s.release()
	}
}

// after returns a context for tidying up: that of the job does not end it, but when the job has ended it has only a moment.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), moment)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// sync waits until what was written is on the server's disk.
func (f *file) sync(ctx context.Context) error {
	return f.store.flush(ctx, f.hold, func(*smb2.Share) error { return f.smb.Sync() })
}

// write writes all of data, several pieces at once.
func (f *file) write(ctx context.Context, data []byte) error {
	return f.each(ctx, iopolicy.Write, len(data), func(from, to int) (int, error) {
		return f.smb.WriteAt(data[from:to], int64(from))
	})
}

// read fills p from off of the file. A file that ends before is store.ErrShort.
func (f *file) read(ctx context.Context, off int64, p []byte) error {
	return f.each(ctx, iopolicy.Read, len(p), func(from, to int) (int, error) {
		for at := from; at < to; {
			n, err := f.smb.ReadAt(p[at:to], off+int64(at))
			at += n
			if session.Ended(ctx, err) || (err == nil && n == 0) {
				return at - from, fmt.Errorf("%w: it ends at byte %d, want %d from %d", store.ErrShort, off+int64(at), len(p), off)
			}
			if err != nil {
				return at - from, err
			}
		}
		return to - from, nil
	})
}

// each cuts total bytes into pieces as large as the gate allows, and moves them, each in an operation of its own, several
// at once.
func (f *file) each(ctx context.Context, kind iopolicy.Kind, total int, move func(from, to int) (int, error)) error {
	var mu sync.Mutex
	next := 0
	cut := func(bound int) (from, to int) {
		mu.Lock()
		defer mu.Unlock()
		size := session.Piece
		if bound > 0 {
			size = min(size, bound)
		}
		from, to = next, min(next+size, total)
		if bound < 0 {
			from, to = total, total
		}
		next = to
		return from, to
	}
	left := func() int {
		mu.Lock()
		defer mu.Unlock()
		return total - next
	}
	mover := func() error {
		for rest := left(); rest > 0; rest = left() {
			op := iopolicy.Op{Kind: kind, Bytes: min(session.Piece, rest), Certain: true}
			_, err := f.store.pass.Do(ctx, op, func(bound int) (n int, err error) {
				from, to := cut(bound)
				if from == to {
					return 0, nil // another one took the last piece meanwhile
				}
				err = f.hold.Do(ctx, func(*smb2.Share) (err error) {
					n, err = move(from, to)
					return err
				})
				return n, err
			})
			if err != nil {
				cut(-1) // the others end with the pieces they have
				return err
			}
		}
		return nil
	}
	var group errgroup.Group // not one that cancels ctx: what is in flight may end
	for range min(f.store.inflight, (total+session.Piece-1)/session.Piece) {
		group.Go(mover)
	}
	return group.Wait()
}

// readEnd fills p from off as far as the file goes, one request after the other. The file is expected to end one byte
// before p is full: an answer that ends there is taken for the end of the file without asking once more.
func (f *file) readEnd(ctx context.Context, off int64, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		asked := 0
		op := iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done, Certain: true}
		n, err := f.store.pass.Do(ctx, op, func(bound int) (n int, err error) {
			q := p[done:min(done+session.Piece, len(p))]
			if bound > 0 {
				q = q[:min(bound, len(q))]
			}
			asked = len(q)
			err = f.hold.Do(ctx, func(*smb2.Share) (err error) {
				n, err = f.smb.ReadAt(q, off+int64(done))
				return err
			})
			return n, err
		})
		done += n
		ended := session.Ended(ctx, err) || (err == nil && n == 0)
		if ended || (err == nil && n < asked && done == len(p)-1) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
