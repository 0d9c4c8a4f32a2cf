package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cloudsoda/go-smb2"

	"github.com/tidemark-backup/tidemark/internal/store"
)

const (
	// grace is how long requests may take to finish after their context has ended. Then the session is killed, because the
	// library cannot cancel a request without losing track of the connection.
	grace = time.Second
	// utmost times Login.Patience is how long one request may take while others on its session make progress.
	utmost = 10
	// goodbye bounds the logoff of a session.
	goodbye = time.Second
)

// Session is one connection with one logon and the share, for many goroutines. It ends as a whole.
type Session struct {
	store.Use
	wire     *wire
	share    *smb2.Share // bound to ctx
	ctx      context.Context
	end      context.CancelCauseFunc
	patience time.Duration // Login.Patience
	used     atomic.Int64  // start of the last request
	remote   *smb2.Session
}

// Login holds what a session needs to start.
type Login struct {
	Host, Share            string
	Port                   int
	User, Domain, Password string
	Tickets                *Tickets // log on by Kerberos instead of the password; User may be ""
	Protection             Protection
	// Patience is the timeout for an answer without a byte moving; one request may take ten times that.
	Patience time.Duration
	Idle     time.Duration // before an Echo
	TCP      TCP
	Known    string // folder that remembers the version of SMB of each server; "": none

	server *server // nil: nothing is known yet
}

// server is what the sessions of a pool know of the server together.
type server struct {
	heard   atomic.Int64  // when it last sent something, in nanoseconds since 1970
	dialect atomic.Uint32 // the newest in which a session began
	known   remembered
	drop    func() // ends all sessions; nil: there is one
}

// answered records a sign of life.
func (s *server) answered() { s.heard.Store(time.Now().UnixNano()) }

// Protection says how requests are protected against changes on the network.
type Protection uint8

// The protections.
const (
	// Protected is encryption where the server offers AES-GCM, else a signature on each message. Both reveal a changed
	// bit. Encryption takes a third of the time here: the library computes signatures (AES-CMAC) byte by byte, while
	// the processor has instructions for AES-GCM.
	Protected Protection = iota
	// Signed is a signature on each message, and encryption only where the server demands it.
	Signed
	// Encrypted sends nothing in clear after the handshake.
	Encrypted
	// AsOffered is what the server demands, which may be no protection.
	AsOffered
)

// Piece is the most bytes that one request reads or writes: the limit of Windows servers.
const Piece = 1 << 20

// longest bounds the time until the share is open: 25 s of the usual 30, so that there is time for an attempt after a
// request that was not answered, before the server is given up.
func (l Login) longest() time.Duration { return l.Patience * 5 / 6 }

// address returns the address of the server for package net.
func (l Login) address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// unc returns the name of the share in the protocol.
func (l Login) unc() string { return `\\` + l.Host + `\` + l.Share }

// dial connects, logs on and opens the share.
func dial(ctx context.Context, l Login) (*Session, error) {
	if l.server == nil {
		l.server = &server{}
	}
	limited, cancel := context.WithTimeoutCause(ctx, l.longest(), errStalled)
	defer cancel()
	var who smb2.Initiator = &smb2.NTLMInitiator{
		User: l.User, Domain: l.Domain, Password: l.Password, TargetSPN: "cifs/" + l.Host,
	}
	if l.Tickets != nil {
		var err error
		if who, err = l.Tickets.initiator(limited, l); err != nil {
			return nil, stoppedOr(ctx, err)
		}
	}
	conn, err := l.TCP.connect(limited, l.address())
	if err != nil {
		if !silence(stalled(err)) {
			l.server.answered() // it, or its network, refused the connection
		}
		return nil, unreachable(ctx, l, err)
	}
	w := newWire(conn, l.Protection, strings.EqualFold(l.User, "guest") && l.Protection == AsOffered)
	w.server = l.server
	if l.TCP.Write > 0 {
		w.step = l.TCP.Write
	}
	d := &smb2.Dialer{
		// The most that a server grants by default. A credit is 64 KiB, and the list of a folder takes 16 of them.
		MaxCreditBalance: 8192,
		Negotiator:       smb2.Negotiator{RequireMessageSigning: l.Protection != AsOffered},
		Initiator:        who,
	}
	s := &Session{wire: w, patience: l.Patience}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	if err := guarded(func() error { return s.begin(limited, d, l) }); err != nil {
		s.kill(err)
		return nil, loginError(ctx, l, w, err)
	}
	lose := func(err error) { s.end(&end{hungUp(err)}) } // so that no request starts on it
	w.end.Store(&lose)
	l.server.dialect.Store(max(l.server.dialect.Load(), w.link.dialect.Load()))
	if l.Protection != AsOffered { // which accepts answers without a signature, so that any host can claim a newer version
		l.server.known.raise(w.link.dialect.Load())
	}
	w.settled.Store(true)
	s.used.Store(time.Now().UnixNano())
	go s.keep(l.Idle)
	return s, nil
}

// begin does the handshake.
func (s *Session) begin(ctx context.Context, d *smb2.Dialer, l Login) error {
	remote, err := d.DialConn(ctx, s.wire, l.address())
	if err != nil {
		return err
	}
	s.remote = remote
	share, err := remote.WithContext(ctx).Mount(l.unc())
	if err != nil {
		return &mountError{err}
	}
	s.share = share.WithContext(s.ctx)
	return nil
}

// mountError distinguishes a share that cannot be opened from a failed logon.
type mountError struct{ err error }

func (e *mountError) Error() string { return "open the share: " + e.err.Error() }
func (e *mountError) Unwrap() error { return e.err }

// hungUp replaces the error of a read that found the end of the connection.
func hungUp(err error) error {
	if t := (*smb2.TransportError)(nil); errors.As(err, &t) { // which hides its cause
		err = t.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errHungUp
	}
	return err
}

// kill ends the session and its requests.
func (s *Session) kill(why error) {
	if !errors.Is(why, ErrClosed) {
		why = &end{hungUp(why)}
	}
	s.end(why)
	_ = s.wire.Close()
}

// end is why a session ended. It does not wrap that error: io.EOF would look like the end of a file, and the cause of
// one context like that of the others.
type end struct{ why error }

func (e *end) Error() string      { return e.why.Error() }
func (e *end) As(target any) bool { return errors.As(e.why, target) } // for shorter messages

// Protected reports whether the last request was signed or encrypted.
func (s *Session) Protected() bool { return s.wire.link.sent.Load() > sentClear }

// Altered ends the session because a request was changed on the way. It returns the error of that request.
func (s *Session) Altered() error {
	s.kill(errAltered)
	return s.Dead()
}

// Moved returns when a byte was last received, or sent and taken.
func (s *Session) Moved() time.Time { return s.wire.lastMoved() }

// Alive reports whether the session has not ended.
func (s *Session) Alive() bool { return s.ctx.Err() == nil }

// Retire ends a session that is not used.
func (s *Session) Retire() { s.kill(ErrClosed) }

// Dead returns why the session ended, nil while it lives.
func (s *Session) Dead() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrDropped, context.Cause(s.ctx))
}

// Do makes requests on the share. They end with their answers or with the session. The session is killed if nothing
// moves for too long, or if the requests have not finished within grace after the end of ctx. The library gets the
// context of the session, never ctx: see grace.
func (s *Session) Do(ctx context.Context, f func(*smb2.Share) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Dead(); err != nil {
		return err
	}
	s.used.Store(time.Now().UnixNano())
	over := make(chan struct{})
	go s.watch(ctx, over)
	err := guarded(func() error { return f(s.share) })
	close(over)
	if err == nil {
		return nil
	}
	if lost(err) {
		s.kill(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.ctx.Err() != nil {
		if own := s.wire.because(); own != nil {
			return own
		}
		return fmt.Errorf("%w: %w", ErrDropped, context.Cause(s.ctx))
	}
	return err
}

// guarded calls the library and turns a panic into an error: the library trusts some lengths that the server sends.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errNonsense, r)
		}
	}()
	return f()
}

// lost reports whether err says that the session is unusable.
func lost(err error) bool {
	var transport *smb2.TransportError
	var invalid *smb2.InvalidResponseError
	var internal *smb2.InternalError
	if errors.As(err, &transport) || errors.As(err, &invalid) || errors.As(err, &internal) || errors.Is(err, errNonsense) {
		return true
	}
	switch Status(err) {
	case StatusUserSessionDeleted, StatusSessionExpired, StatusNetworkNameDeleted, StatusConnectionDisconnected,
		StatusConnectionReset:
		return true
	}
	return false
}

// Ended reports whether err, from a request in Do or from Do, is the server's answer for the end of a file or folder. A
// connection ends with io.EOF too, and so may ctx; then the file may be longer.
func Ended(ctx context.Context, err error) bool {
	return errors.Is(err, io.EOF) && ctx.Err() == nil && !errors.Is(err, ErrDropped) && !lost(err)
}

// watch kills the session if its requests make no progress until they are over.
func (s *Session) watch(ctx context.Context, over <-chan struct{}) {
	began, wait := time.Now(), time.NewTimer(s.patience)
	defer wait.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			select {
			case <-over:
			case <-time.After(grace):
				s.kill(context.Cause(ctx))
			}
			return
		case <-wait.C:
		}
		total := time.Since(began)
		still := min(total, time.Since(s.Moved()))
		if still < s.patience && total < utmost*s.patience {
			wait.Reset(s.patience - still)
			continue
		}
		s.kill(fmt.Errorf("%w for %v", errStalled, still.Round(time.Second)))
		if o := s.wire.server; o.drop != nil && time.Since(time.Unix(0, o.heard.Load())) >= s.patience {
			o.drop()
		}
		return
	}
}

// keep sends an Echo whenever the session was idle for that long, until it ends. Servers and routers drop idle
// connections.
func (s *Session) keep(idle time.Duration) {
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(time.Unix(0, s.used.Load())) < idle {
			continue
		}
		err := s.Do(s.ctx, func(*smb2.Share) error { return s.remote.WithContext(s.ctx).Echo() })
		if err != nil {
			s.kill(err)
		}
	}
}

// leave logs off from a session without requests.
func (s *Session) leave() {
	if s.ctx.Err() == nil {
		timer := time.AfterFunc(goodbye, func() { s.kill(ErrClosed) })
		_ = guarded(func() error { return s.remote.WithContext(s.ctx).Logoff() })
		timer.Stop()
	}
	s.kill(ErrClosed)
}
