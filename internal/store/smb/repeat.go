package smb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

const (
	// firstPause and longestPause are the waits between attempts; they double from one to the other.
	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
	// maxDenials is how often access may be denied before the error is returned.
	maxDenials = 3
)

// repeat runs op on a session, and again after a temporary failure, until the outage exceeds Patience.Outage. The
// outage is the time since the first failure, without the time in which a connection existed that broke later: a large
// file on a slow line takes longer, and may meet several short outages.
//
// A server that accepts connections and sends nothing is given up earlier: see givenUp.
//
// op must be repeatable. An attempt that found nothing is repeated once: the target may have been away for a moment,
// and Samba occasionally finds nothing while a file is being replaced.
func (s *Store) repeat(ctx context.Context, op func(h *session.Session) error) (err error) {
	if err := s.silent(); err != nil {
		return err
	}
	start := time.Now()
	var began time.Time
	waited, asked := false, false
	defer func() { s.outage.Leave(waited, err, s.patience.Back) }()
	pause := firstPause
	for {
		begin, moved := time.Now(), time.Time{}
		err := s.permitted(ctx, func(h *session.Session) error {
			defer func() { moved = h.Moved() }()
			return op(h)
		})
		if errors.Is(err, store.ErrNotExist) && !asked {
			asked = true
			continue
		}
		if err == nil || !retryable(err) || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if errors.Is(err, session.ErrDropped) && moved.After(begin) && !began.IsZero() {
			began = began.Add(moved.Sub(begin)) // that time was no outage
		}
		if began.IsZero() {
			began = now
			if errors.Is(err, session.ErrDropped) {
				continue // most likely the server ended an idle connection
			}
		}
		wait := pause/2 + rand.N(pause)
		if now.Add(wait).Sub(began) > s.patience.Outage {
			return err
		}
		if heard := s.pool.Heard(); now.Add(wait+s.pool.Longest()).Sub(latest(start, heard)) > s.patience.Silence {
			s.gaveUp.Store(&givenUp{now, err})
			return err
		}
		s.outage.Begin(&waited)
		if s.patience.Notify != nil && s.outage.News() {
			s.patience.Notify(store.Brief(err))
		}
		if stopped := store.Sleep(ctx, wait); stopped != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", stopped, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// permitted runs op on a session, and again if access is denied: servers return that for a request whose signature does
// not match, because a bit of it was changed on the way.
func (s *Store) permitted(ctx context.Context, op func(h *session.Session) error) error {
	for n := 1; ; n++ {
		err := s.once(ctx, op)
		if n == maxDenials || !errors.Is(err, store.ErrDenied) || ctx.Err() != nil {
			return err
		}
	}
}

func (s *Store) once(ctx context.Context, op func(h *session.Session) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := s.pool.Get(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	return s.explain(ctx, h, op(h))
}

// retryable reports whether a failure may be over soon. A missing share is retryable: a starting server offers its
// shares before their disks are mounted.
func retryable(err error) bool {
	return store.Retryable(err, ErrLogon, ErrInsecure, ErrTorn, session.ErrClosed)
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// givenUp remembers that a server was given up as silent. Without it, each of the operations that end a run would wait
// for the server again.
type givenUp struct {
	at  time.Time
	why error
}

// silent returns why the server was given up, if that was less than Patience.Request ago and it was not heard again.
func (s *Store) silent() error {
	g := s.gaveUp.Load()
	if g == nil || s.pool.Heard().After(g.at) || time.Since(g.at) > s.patience.Request {
		return nil
	}
	return g.why
}
