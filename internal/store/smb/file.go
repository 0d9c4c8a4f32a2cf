package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// cleanupTimeout bounds cleaning up after the end of ctx.
const cleanupTimeout = 3 * time.Second

// file is an open file of one session.
type file struct {
	store *Store
	on    *session.Session
	smb   *smb2.File
}

func (s *Store) open(ctx context.Context, h *session.Session, at string, flags int) (*file, error) {
	f := &file{store: s, on: h}
	err := s.metadata(ctx, h, func(share *smb2.Share) (err error) {
		f.smb, err = share.OpenFile(at, flags, fs.ModePerm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// close closes the handle, even after ctx has ended. It does not wait at the gate: it is part of the previous
// operation.
func (f *file) close(ctx context.Context) error {
	if f.smb == nil {
		return nil
	}
	open := f.smb
	f.smb = nil
	ctx, cancel := after(ctx)
	defer cancel()
	return f.on.Do(ctx, func(*smb2.Share) error { return open.Close() })
}

// unaltered replaces a denial of access to an open file. A server decides about access when it opens the file; later it
// answers so to a request whose signature does not fit.
func unaltered(h *session.Session, err error) error {
	if errors.Is(err, fs.ErrPermission) && h.Protected() {
		return h.Altered()
	}
	return err
}

// done closes a file that was only read, without waiting for the answer: that saves a round trip for each file. open,
// which may be nil, counts it until then, so that the file is not replaced while it is open.
func (f *file) done(ctx context.Context, open *sync.WaitGroup) {
	if open == nil {
		open = &sync.WaitGroup{}
	}
	open.Add(1)
	f.store.inBackground(func() {
		defer open.Done()
		_ = f.close(ctx)
	})
}

// inBackground runs f without waiting for it. Close waits.
func (s *Store) inBackground(f func()) {
	s.mu.Lock()
	if !s.closed {
		s.background.Go(f)
		f = func() {}
	}
	s.mu.Unlock()
	f()
}

// after returns a context for cleaning up, which ctx does not cancel. After the end of ctx it has a timeout.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	}
	return context.WithCancel(context.WithoutCancel(ctx))
}

// sync flushes the file on the server.
func (f *file) sync(ctx context.Context) error {
	return unaltered(f.on, f.store.flush(ctx, f.on, func(*smb2.Share) error { return f.smb.Sync() }))
}

// stat describes the open file.
func (f *file) stat(ctx context.Context) (info fs.FileInfo, err error) {
	err = f.ample(ctx, func() (err error) {
		info, err = f.smb.Stat()
		return err
	})
	return info, err
}

// ample runs call, for which the library requests the largest answer that the server allows, even if the remaining
// credits cover less. Servers that grant few credits then reject the request as invalid, so it is repeated when other
// requests have returned their credits.
func (f *file) ample(ctx context.Context, call func() error) error {
	for pause := firstPause; ; pause *= 2 {
		err := f.store.metadata(ctx, f.on, func(*smb2.Share) error { return call() })
		err = unaltered(f.on, err)
		if session.Status(err) != session.StatusInvalidParameter || pause > longestPause {
			return err
		}
		if err := store.Sleep(ctx, pause/2+rand.N(pause)); err != nil {
			return err
		}
	}
}

// write writes all of data, several pieces concurrently.
func (f *file) write(ctx context.Context, data []byte) error {
	return f.each(ctx, iopolicy.Write, len(data), func(from, to int) (int, error) {
		return f.smb.WriteAt(data[from:to], int64(from))
	})
}

// read fills p from offset off. A file that ends before is store.ErrShort.
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

// each cuts total bytes into pieces that the gate allows, and moves several concurrently, each as an operation.
func (f *file) each(ctx context.Context, kind iopolicy.Kind, total int, move func(from, to int) (int, error)) error {
	way := store.Upload
	if kind == iopolicy.Read {
		way = store.Download
	}
	piece := store.PieceOf(ctx, way, session.Piece)
	var mu sync.Mutex
	next := 0
	cut := func(bound int) (from, to int) {
		mu.Lock()
		defer mu.Unlock()
		size := piece
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
			op := iopolicy.Op{Kind: kind, Bytes: min(piece, rest), Certain: true}
			n, err := f.store.pass.Do(ctx, op, func(bound int) (n int, err error) {
				from, to := cut(bound)
				if from == to {
					return 0, nil // another goroutine took the last piece
				}
				err = f.on.Do(ctx, func(*smb2.Share) (err error) {
					n, err = move(from, to)
					return err
				})
				return n, unaltered(f.on, err)
			})
			if err == nil {
				err = store.Paced(ctx, way, n)
			}
			if err != nil {
				cut(-1) // stops the other goroutines
				return err
			}
		}
		return nil
	}
	var group errgroup.Group // without a context: requests in flight finish
	for range min(f.store.inflight, (total+session.Piece-1)/session.Piece) {
		group.Go(mover)
	}
	return group.Wait()
}

// request reads p, or as much of it as the gate allows at once, from offset off. It returns how much it asked for.
func (f *file) request(ctx context.Context, off int64, p []byte) (n, asked int, err error) {
	op := iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p), Certain: true}
	n, err = f.store.pass.Do(ctx, op, func(bound int) (n int, err error) {
		if bound > 0 {
			p = p[:min(bound, len(p))]
		}
		err = f.on.Do(ctx, func(*smb2.Share) (err error) {
			n, err = f.smb.ReadAt(p, off)
			return err
		})
		return n, unaltered(f.on, err)
	})
	return n, len(p), err
}

// readEnd fills p from offset off up to the end of the file, with one request at a time. The file is expected to end
// one byte before p is full: a read that stops there saves the request that would confirm the end.
func (f *file) readEnd(ctx context.Context, off int64, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, asked, err := f.request(ctx, off+int64(done), p[done:min(done+session.Piece, len(p))])
		done += n
		if paced := store.Paced(ctx, store.Download, n); paced != nil {
			return done, paced
		}
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
