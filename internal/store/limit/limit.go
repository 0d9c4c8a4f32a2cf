// Package limit is a decorator of a store that limits the rates of uploads and downloads. All stores of a run share one
// Limiter, so the limits hold for their sum.
//
// A store that moves a file in pieces asks for the size of a piece and sleeps after each one (store.Paced), so that a
// pack of 16 MiB flows steadily. For other stores the decorator sleeps after the whole file.
package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// perSecond is how many pieces a second the rate is divided into.
	perSecond = 32
	// minPiece and maxPiece bound a piece: smaller ones cost too many requests, larger ones are bursts.
	minPiece = 4 << 10
	maxPiece = 1 << 20
)

// Limiter limits the sum of the traffic of the stores that are wrapped with it.
type Limiter struct {
	ways     [2]*rate.Limiter // by store.Direction, with pieces as bursts; nil: no limit
	uploaded atomic.Uint64

	mu       sync.Mutex // guards what follows
	sleeping int        // transfers
	since    time.Time  // when the first of them began to sleep
	slept    time.Duration
}

// Progress returns how long at least one transfer has slept, and how many bytes were uploaded at a limited rate,
// including those of unfinished files. Both are 0 for a nil Limiter.
func (l *Limiter) Progress() (held time.Duration, uploaded uint64) {
	if l == nil {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if held = l.slept; l.sleeping > 0 {
		held += time.Since(l.since)
	}
	return held, l.uploaded.Load()
}

// sleep holds a transfer.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	l.mu.Lock()
	if l.sleeping++; l.sleeping == 1 {
		l.since = time.Now()
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.sleeping--; l.sleeping == 0 {
			l.slept += time.Since(l.since)
		}
	}()
	return store.Sleep(ctx, d)
}

// New returns a Limiter of rates in bytes a second, 0 for no limit; nil without any.
func New(upload, download int64) *Limiter {
	if upload <= 0 && download <= 0 {
		return nil
	}
	return &Limiter{ways: [2]*rate.Limiter{store.Upload: newWay(upload), store.Download: newWay(download)}}
}

func newWay(perSec int64) *rate.Limiter {
	if perSec <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSec), int(min(max(perSec/perSecond, minPiece), maxPiece)))
}

// charge records n bytes that were moved, and returns when the next ones are due.
func charge(way *rate.Limiter, n int) (wait time.Duration) {
	now := time.Now()
	for n > 0 {
		part := min(n, way.Burst()) // it refuses more at once
		wait = way.ReserveN(now, part).DelayFrom(now)
		n -= part
	}
	return wait
}

// Store is a decorator that limits the rates.
type Store struct {
	store.Store
	limiter *Limiter
}

var _ store.Store = (*Store)(nil)

// Wrap returns st with its traffic limited; st itself if l is nil.
func Wrap(st store.Store, l *Limiter) store.Store {
	if l == nil {
		return st
	}
	return &Store{Store: st, limiter: l}
}

// Inner returns the store that is decorated.
func (s *Store) Inner() store.Store { return s.Store }

// pacer is the pacer of one operation.
type pacer struct {
	l     *Limiter
	moved [2]atomic.Int64 // by store.Direction
}

// Piece returns the piece of a direction.
func (p *pacer) Piece(d store.Direction) int {
	if way := p.l.ways[d]; way != nil {
		return way.Burst()
	}
	return 0
}

// Moved charges n bytes and sleeps.
func (p *pacer) Moved(ctx context.Context, d store.Direction, n int) error {
	p.moved[d].Add(int64(n))
	way := p.l.ways[d]
	if way == nil {
		return nil
	}
	if d == store.Upload {
		p.l.uploaded.Add(uint64(n))
	}
	if wait := charge(way, n); wait > 0 {
		return p.l.sleep(ctx, wait)
	}
	return nil
}

// move runs an operation that moves n bytes, and charges those that the inner store did not charge itself.
func (s *Store) move(ctx context.Context, d store.Direction, n int, op func(context.Context) error) error {
	p := &pacer{l: s.limiter}
	if err := op(store.WithPacer(ctx, p)); err != nil {
		return err
	}
	if rest := n - int(p.moved[d].Load()); rest > 0 {
		_ = p.Moved(ctx, d, rest) // the operation succeeded, even if ctx has ended since
	}
	return nil
}

// Put stores at the limited rate. A lease is charged and never delayed, because it would expire.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	return s.upload(ctx, name, data, func(ctx context.Context) error { return s.Store.Put(ctx, name, data) })
}

func (s *Store) upload(ctx context.Context, name store.Name, data []byte, put func(context.Context) error) error {
	if name.Kind == store.Lease {
		if way := s.limiter.ways[store.Upload]; way != nil {
			charge(way, len(data))
		}
		return put(ctx)
	}
	return s.move(ctx, store.Upload, len(data), put)
}

// PutNew stores like Put.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (info store.Info, err error) {
	err = s.upload(ctx, name, data, func(ctx context.Context) error {
		info, err = s.Store.PutNew(ctx, name, data)
		return err
	})
	return info, err
}

// Get reads at the limited rate.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	return s.move(ctx, store.Download, len(p), func(ctx context.Context) error { return s.Store.Get(ctx, name, off, p) })
}
