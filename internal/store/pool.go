package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// refused is the pause after a failure to dial in the background: a server may allow no more connections.
const refused = time.Minute

// Connection is one of several to a server. It ends as a whole.
type Connection interface {
	comparable
	Alive() bool
	Retire() // ends it while it is not used
	Uses() *Use
}

// Use counts the users of a Connection, which embeds it.
type Use struct {
	users atomic.Int32
	began time.Time
}

// Release ends one use.
func (u *Use) Release() { u.users.Add(-1) }

// Used reports whether the connection is in use.
func (u *Use) Used() bool { return u.users.Load() > 0 }

// Uses returns u.
func (u *Use) Uses() *Use { return u }

// Pool keeps connections to a server, which are dialled on demand. It is safe for concurrent use.
type Pool[C Connection] struct {
	dial func(ctx context.Context) (C, error)
	most int

	turn  chan struct{} // held by the one that dials while others wait for it
	tried time.Time     // when the last of these attempts failed; used by the holder of turn
	why   error         // its error

	ctx   context.Context // of the background
	stop  context.CancelFunc
	group sync.WaitGroup // the background

	mu      sync.Mutex
	live    []C
	opening bool      // one is dialled in the background
	next    time.Time // when the next one may be
	ended   error
}

// NewPool returns a pool of up to most connections.
func NewPool[C Connection](most int, dial func(ctx context.Context) (C, error)) *Pool[C] {
	p := &Pool[C]{dial: dial, most: most, turn: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Get returns the connection with the fewest users that began after ConnectedSince. The caller releases it. If all are
// in use, another one is dialled in the background. Without one the callers wait until one of them has dialled.
func (p *Pool[C]) Get(ctx context.Context) (c C, err error) {
	came, since := time.Now(), ConnectedSince(ctx)
	if c, found, err := p.pick(since); found || err != nil {
		return c, err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return c, context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	if c, found, err := p.pick(since); found || err != nil {
		return c, err
	}
	if p.tried.After(came) { // another attempt failed meanwhile, as this one would
		return c, p.why
	}
	c, err = p.add(ctx, 1, since)
	if err != nil && ctx.Err() == nil {
		p.tried, p.why = time.Now(), err
	}
	return c, err
}

// pick counts a user of a connection that is there.
func (p *Pool[C]) pick(since time.Time) (best C, found bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return best, false, p.ended
	}
	p.live = slices.DeleteFunc(p.live, func(c C) bool { return !c.Alive() })
	for _, c := range p.live {
		u := c.Uses()
		if !u.began.Before(since) && (!found || u.users.Load() < best.Uses().users.Load()) {
			best, found = c, true
		}
	}
	if found && best.Uses().users.Add(1) > 1 && len(p.live) < p.most && !p.opening && time.Now().After(p.next) {
		p.opening = true
		p.group.Go(p.widen)
	}
	return best, found, nil
}

// widen dials a connection that nothing waits for.
func (p *Pool[C]) widen() {
	_, err := p.add(p.ctx, 0, time.Time{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening = false
	if err != nil {
		p.next = time.Now().Add(refused)
	}
}

// add dials a connection, which takes the place of those from before a time.
func (p *Pool[C]) add(ctx context.Context, users int32, since time.Time) (C, error) {
	began := time.Now()
	c, err := p.dial(ctx)
	if err != nil {
		return c, err
	}
	u := c.Uses()
	u.began = began
	u.users.Store(users)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		go c.Retire()
		return c, p.ended
	}
	p.live = slices.DeleteFunc(p.live, func(old C) bool {
		replaced := old.Uses().began.Before(since) && !old.Uses().Used()
		if replaced {
			p.group.Go(old.Retire)
		}
		return replaced
	})
	p.live, p.next = append(p.live, c), time.Time{}
	return c, nil
}

// Live returns the connections that are alive; none after End.
func (p *Pool[C]) Live() []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.live), func(c C) bool { return !c.Alive() })
}

// Other returns the live connection with the fewest users but one, which may be zero; zero: there is none. The caller
// releases it.
func (p *Pool[C]) Other(but C) (best C) {
	var none C
	for _, c := range p.Live() {
		if c != but && (best == none || c.Uses().users.Load() < best.Uses().users.Load()) {
			best = c
		}
	}
	if best != none {
		best.Uses().users.Add(1)
	}
	return best
}

// End returns the connections, and the error of each later Get is why.
func (p *Pool[C]) End(why error) []C {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := p.live
	p.live, p.ended = nil, why
	p.stop()
	return live
}

// Wait waits for the end of what End has left in the background.
func (p *Pool[C]) Wait() { p.group.Wait() }
