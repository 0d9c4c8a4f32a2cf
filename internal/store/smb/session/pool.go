package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Pool keeps the sessions of one user on one share. A slot holds a live session, a dead one or none.
type Pool struct {
	login Login
	ahead sync.WaitGroup // sessions that are dialled while others are used
	stop  context.Context
	end   context.CancelFunc // ends stop, with which they end
	mu    sync.Mutex
	slots []*slot
	done  bool
	begun bool // a session was started: logon and protection were accepted
	again int  // refusals that were retried since the last session began
}

// aheadAgain is how long a slot is left alone after a session was dialled for it that nothing waits for.
const aheadAgain = 10 * time.Second

// refusals is how many refusals in a row are retried after the first logon succeeded, since a bit may have been changed
// on the way. They are few, because the password may have been changed, and servers lock accounts.
const refusals = 2

type slot struct {
	turn  chan struct{} // held while dialling, so that one connects and the others wait
	tried time.Time     // when the last attempt failed; used by the holder of turn
	why   error         // its error
	live  *Session      // guarded by pool.mu
	users int           // guarded by pool.mu
	ahead time.Time     // when a session was dialled last that nothing waits for; guarded by pool.mu
}

// NewPool returns a pool of up to size sessions, which are dialled on demand.
func NewPool(l Login, sessions int) *Pool {
	l.server = &server{known: remember(l)}
	l.server.answered()
	p := &Pool{login: l}
	p.stop, p.end = context.WithCancel(context.Background())
	l.server.drop = p.drop
	for range sessions {
		p.slots = append(p.slots, &slot{turn: make(chan struct{}, 1)})
	}
	return p
}

// Hold is the use of a session.
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

// Get returns the session with the fewest users. If all are in use it begins another one, and does not wait for it. It
// dials where there is none, and instead of a session that is older than store.ConnectedSince.
func (p *Pool) Get(ctx context.Context) (*Hold, error) {
	s, err := p.choose(store.ConnectedSince(ctx).IsZero())
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

// Other returns a live session other than that of h; nil: none.
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

// Any returns a live session without waiting; nil: none.
func (p *Pool) Any() *Hold { return p.Other(&Hold{}) }

// alive is called under pool.mu.
func (s *slot) alive() bool { return s.live != nil && s.live.ctx.Err() == nil }

// choose adds a user to a slot. With ready it prefers one that has a session.
func (p *Pool) choose(ready bool) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil, ErrClosed
	}
	var best, living *slot
	for _, s := range p.slots {
		if best == nil || s.users < best.users || (s.users == best.users && s.alive() && !best.alive()) {
			best = s
		}
		if s.alive() && (living == nil || s.users < living.users) {
			living = s
		}
	}
	if ready && living != nil && living != best {
		p.begin(best)
		best = living
	}
	best.users++
	return best, nil
}

// begin dials a session that nothing waits for. It is called under p.mu.
func (p *Pool) begin(s *slot) {
	if time.Since(s.ahead) > aheadAgain {
		s.ahead = time.Now()
		p.ahead.Go(func() { _, _ = p.connect(p.stop, s) }) // after an error, the next user of the slot dials
	}
}

// connect returns the session of a slot. It dials if that is dead or missing.
func (p *Pool) connect(ctx context.Context, s *slot) (*Session, error) {
	came := time.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	p.mu.Lock()
	old, alive, done, alone := s.live, s.alive(), p.done, s.users == 1
	p.mu.Unlock()
	if done {
		return nil, ErrClosed
	}
	if alive && !old.began.Before(store.ConnectedSince(ctx)) {
		return old, nil
	}
	switch {
	case alive && alone:
		old.kill(errReplaced)
	case alive: // requests of others are under way
		time.AfterFunc(p.login.Patience, func() { old.kill(errReplaced) })
	}
	if s.tried.After(came) { // another attempt failed meanwhile, as this one would
		return nil, s.why
	}
	fresh, err := dial(ctx, p.login)
	if p.doubtful(err) {
		fresh, err = dial(ctx, p.login)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.tried, s.why = time.Now(), err
		}
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		fresh.kill(ErrClosed)
		return nil, ErrClosed
	}
	s.live, p.begun, p.again = fresh, true, 0
	return fresh, nil
}

// doubtful reports whether to retry a refusal, and counts it. The messages that start a session are not signed yet, so
// that a changed bit looks like a wrong password or a server that cannot encrypt.
func (p *Pool) doubtful(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || p.again == refusals || !(errors.Is(err, ErrLogon) || errors.Is(err, ErrInsecure)) {
		return false
	}
	p.again++
	return true
}

// Heard returns when the server last gave a sign of life.
func (p *Pool) Heard() time.Time { return time.Unix(0, p.login.server.heard.Load()) }

// Longest returns how long it takes at most to begin a session.
func (p *Pool) Longest() time.Duration { return p.login.longest() }

// Abort ends all sessions at once. Requests in flight fail, and no other begins.
func (p *Pool) Abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	p.end()
	p.killAll(ErrClosed)
}

// drop ends all sessions of a silent server: a request on any of them would wait for as long as the last one.
func (p *Pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAll(errStalled)
}

// killAll is called under p.mu.
func (p *Pool) killAll(why error) {
	for _, s := range p.slots {
		if s.live != nil {
			s.live.kill(why)
		}
	}
}

// Close ends all sessions. Requests in flight fail.
func (p *Pool) Close() {
	defer p.ahead.Wait()
	p.mu.Lock()
	p.done = true
	p.end()
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
