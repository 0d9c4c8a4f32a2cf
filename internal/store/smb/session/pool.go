package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Pool keeps the sessions of one user on one share.
type Pool struct {
	*store.Pool[*Session]
	login Login

	mu    sync.Mutex
	begun bool // a session was started: logon and protection were accepted
	again int  // refusals that were retried since the last session began
}

// refusals is how many refusals in a row are retried after the first logon succeeded, since a bit may have been changed
// on the way. They are few, because the password may have been changed, and servers lock accounts.
const refusals = 2

// NewPool returns a pool of up to size sessions.
func NewPool(l Login, sessions int) *Pool {
	l.server = &server{known: remember(l)}
	l.server.answered()
	p := &Pool{login: l}
	p.Pool = store.NewPool(sessions, p.dial)
	p.login.server.drop = func() { killAll(p.Live(), errStalled) }
	return p
}

// dial begins a session, and tries again if a refusal is doubtful.
func (p *Pool) dial(ctx context.Context) (*Session, error) {
	fresh, err := dial(ctx, p.login)
	if p.doubtful(err) {
		fresh, err = dial(ctx, p.login)
	}
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.again = true, 0
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

// killAll ends sessions at once. Requests in flight fail.
func killAll(all []*Session, why error) {
	for _, s := range all {
		s.kill(why)
	}
}

// Abort ends all sessions at once, and no other begins.
func (p *Pool) Abort() { killAll(p.End(ErrClosed), ErrClosed) }

// Close ends all sessions. Requests in flight fail.
func (p *Pool) Close() {
	var leaving sync.WaitGroup
	for _, s := range p.End(ErrClosed) {
		if s.Used() {
			s.kill(ErrClosed)
		} else {
			leaving.Go(s.leave)
		}
	}
	leaving.Wait()
	p.Wait()
}
