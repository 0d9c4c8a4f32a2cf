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
)

// repeat does op on a session, again and again while its failure may be over soon, until the outage has lasted too long: the
// time since the first failure, but for that in which a connection was there that broke later. A large file on a slow line
// takes longer than an outage may, and may meet several short ones.
// op must be one that may be repeated; it is told the number of the attempt, from 1. That something is not there is asked
// twice, and in between whether the target is, which may have come back. And Samba, asked for a file that is being replaced,
// says so at times: once in a thousand replacements, if it is asked all the time.
func (s *Store) repeat(ctx context.Context, op func(h *session.Hold, attempt int) error) (err error) {
	var began time.Time
	waited, asked := false, false
	defer func() { s.outage.Leave(waited, err, s.patience.Back) }()
	pause := firstPause
	for attempt := 1; ; attempt++ {
		begin, moved := time.Now(), time.Time{}
		err := s.once(ctx, func(h *session.Hold) error {
			defer func() { moved = h.Moved() }()
			return op(h, attempt)
		})
		if errors.Is(err, store.ErrNotExist) && !asked {
			asked = true
			continue
		}
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if errors.Is(err, session.ErrDropped) && moved.After(begin) && !began.IsZero() {
			began = began.Add(moved.Sub(begin)) // so long it was no outage
		}
		if began.IsZero() {
			began = now
			if errors.Is(err, session.ErrDropped) {
				continue // most likely the server ended an idle connection: that is no outage
			}
		}
		wait := pause/2 + rand.N(pause)
		if now.Add(wait).Sub(began) > s.patience.Outage {
			return err
		}
		s.outage.Begin(&waited)
		if brief := store.Brief(err); s.patience.Notify != nil && s.outage.News(brief.Error(), pause) {
			s.patience.Notify(brief, wait)
		}
		if stopped := sleep(ctx, wait); stopped != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", stopped, err)
		}
		pause = min(2*pause, longestPause)
	}
}

func (s *Store) once(ctx context.Context, op func(h *session.Hold) error) error {
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

// passing reports whether a failure may be over soon. A share that has gone counts: a server that starts is there before
// its disks are.
func passing(err error) bool {
	for _, final := range []error{
		store.ErrNotExist, store.ErrShort, store.ErrDenied, store.ErrNoSpace, store.ErrName, ErrLogon, ErrInsecure, ErrTorn,
		session.ErrClosed,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return errors.Is(err, store.ErrTemporary)
}

// sleep waits for d, or returns the cause when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
