package smb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// firstPause and longestPause are the waits between attempts; they double from one to the other.
	firstPause   = 20 * time.Millisecond
	longestPause = 5 * time.Second
)

// pool keeps the sessions. A slot holds one session, or none yet, or one that is dead.
type pool struct {
	login login
	mu    sync.Mutex
	slots []*slot
	done  bool
}

type slot struct {
	turn  chan struct{} // held while dialling, so that one connects and the others wait
	live  *session      // guarded by pool.mu
	users int           // guarded by pool.mu
}

func newPool(l login, sessions int) *pool {
	p := &pool{login: l}
	for range sessions {
		p.slots = append(p.slots, &slot{turn: make(chan struct{}, 1)})
	}
	return p
}

// hold is the use of a session for a while.
type hold struct {
	*session
	pool *pool
	slot *slot
}

func (h *hold) release() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.slot.users--
}

// get returns the session with the fewest users, and dials one where that is an empty slot.
func (p *pool) get(ctx context.Context) (*hold, error) {
	s, err := p.choose()
	if err != nil {
		return nil, err
	}
	h := &hold{pool: p, slot: s}
	if h.session, err = p.connect(ctx, s); err != nil {
		h.release()
		return nil, err
	}
	return h, nil
}

// other returns a live session that is not the one of h, if there is one; else nil.
func (p *pool) other(h *hold) *hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best *slot
	for _, s := range p.slots {
		if s != h.slot && s.alive() && (best == nil || s.users < best.users) {
			best = s
		}
	}
	if best == nil || p.done {
		return nil
	}
	best.users++
	return &hold{session: best.live, pool: p, slot: best}
}

// any returns a live session without waiting; nil: there is none.
func (p *pool) any() *hold { return p.other(&hold{}) }

// alive is asked under pool.mu.
func (s *slot) alive() bool { return s.live != nil && s.live.ctx.Err() == nil }

func (p *pool) choose() (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil, errClosed
	}
	var best *slot
	for _, s := range p.slots {
		better := best == nil || s.users < best.users || (s.users == best.users && s.alive() && !best.alive())
		if better {
			best = s
		}
	}
	best.users++
	return best, nil
}

// connect returns the session of a slot, and dials when it has none that lives.
func (p *pool) connect(ctx context.Context, s *slot) (*session, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	p.mu.Lock()
	old, alive, done := s.live, s.alive(), p.done
	p.mu.Unlock()
	if done {
		return nil, errClosed
	}
	if alive {
		return old, nil
	}
	fresh, err := dial(ctx, p.login)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		fresh.kill(errClosed)
		return nil, errClosed
	}
	s.live = fresh
	return fresh, nil
}

// close ends all sessions. What is under way fails.
func (p *pool) close() {
	p.mu.Lock()
	p.done = true
	var idle []*session
	for _, s := range p.slots {
		switch {
		case s.live == nil:
		case s.users == 0:
			idle = append(idle, s.live)
		default:
			s.live.kill(errClosed)
		}
	}
	p.mu.Unlock()
	var leaving sync.WaitGroup
	for _, s := range idle {
		leaving.Go(s.leave)
	}
	leaving.Wait()
}

// repeat does op on a session, again and again while its failure may be over soon, until the outage has lasted too long.
// op must be one that may be repeated; it is told the number of the attempt, from 1.
func (s *Store) repeat(ctx context.Context, op func(h *hold, attempt int) error) error {
	var began time.Time
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := s.once(ctx, func(h *hold) error { return op(h, attempt) })
		if err == nil || !passing(err) || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if began.IsZero() {
			began = now
			if errors.Is(err, errDropped) {
				continue // most likely the server ended an idle connection: that is no outage
			}
		}
		wait := pause/2 + rand.N(pause)
		if now.Add(wait).Sub(began) > s.patience.Outage {
			return err
		}
		if s.patience.Notify != nil {
			s.patience.Notify(err, wait)
		}
		if stopped := sleep(ctx, wait); stopped != nil {
			return fmt.Errorf("%w while waiting to try again after: %w", stopped, err)
		}
		pause = min(2*pause, longestPause)
	}
}

func (s *Store) once(ctx context.Context, op func(h *hold) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := s.pool.get(ctx)
	if err != nil {
		return err
	}
	defer h.release()
	return s.explain(ctx, op(h))
}

// passing reports whether a failure may be over soon. A share that has gone counts: a server that starts is there before
// its disks are.
func passing(err error) bool {
	for _, final := range []error{
		store.ErrNotExist, store.ErrShort, store.ErrDenied, store.ErrNoSpace, store.ErrName, ErrLogon, ErrInsecure, ErrTorn,
		errClosed,
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
