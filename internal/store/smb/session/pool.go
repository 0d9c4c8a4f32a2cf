package session

import (
	"context"
	"sync"
)

// Pool keeps sessions, of one user on one share. A slot holds one session, or none yet, or one that is dead.
type Pool struct {
	login Login
	mu    sync.Mutex
	slots []*slot
	done  bool
}

type slot struct {
	turn  chan struct{} // held while dialling, so that one connects and the others wait
	live  *Session      // guarded by pool.mu
	users int           // guarded by pool.mu
}

// NewPool makes a pool of up to so many sessions, which are dialled when there is work.
func NewPool(l Login, sessions int) *Pool {
	p := &Pool{login: l}
	for range sessions {
		p.slots = append(p.slots, &slot{turn: make(chan struct{}, 1)})
	}
	return p
}

// Hold is the use of a session for a while.
type Hold struct {
	*Session
	pool *Pool
	slot *slot
}

// Release ends the use. It must be called once.
func (h *Hold) Release() {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	h.slot.users--
}

// Get returns the session with the fewest users, and dials one where that is an empty slot.
func (p *Pool) Get(ctx context.Context) (*Hold, error) {
	s, err := p.choose()
	if err != nil {
		return nil, err
	}
	h := &Hold{pool: p, slot: s}
	if h.Session, err = p.connect(ctx, s); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// Other returns a live session that is not the one of h, if there is one; else nil.
func (p *Pool) Other(h *Hold) *Hold {
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
	return &Hold{Session: best.live, pool: p, slot: best}
}

// Any returns a live session without waiting; nil: there is none.
func (p *Pool) Any() *Hold { return p.Other(&Hold{}) }

// alive is asked under pool.mu.
func (s *slot) alive() bool { return s.live != nil && s.live.ctx.Err() == nil }

func (p *Pool) choose() (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil, ErrClosed
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
func (p *Pool) connect(ctx context.Context, s *slot) (*Session, error) {
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
		return nil, ErrClosed
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
		fresh.kill(ErrClosed)
		return nil, ErrClosed
	}
	s.live = fresh
	return fresh, nil
}

// Close ends all sessions. What is under way fails.
func (p *Pool) Close() {
	p.mu.Lock()
	p.done = true
	var idle []*Session
	for _, s := range p.slots {
		switch {
		case s.live == nil:
		case s.users == 0:
			idle = append(idle, s.live)
		default:
			s.live.kill(ErrClosed)
		}
	}
	p.mu.Unlock()
	var leaving sync.WaitGroup
	for _, s := range idle {
		leaving.Go(s.leave)
	}
	leaving.Wait()
}
