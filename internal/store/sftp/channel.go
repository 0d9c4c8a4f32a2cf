package sftp

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/sftp"
)

const (
	// inFlight is how many requests of 32 KiB one file has in flight: 2 MiB, which is 40 MB/s at 50 ms.
	inFlight = 64
	// patience is how long a channel with requests in flight may be silent.
	patience = 2 * time.Minute
	// silence is how long a server may leave all requests without an answer before it is reported as silent.
	silence = 5 * time.Second
	// grace is how long the requests of a cancelled operation may take before their channel is ended.
	grace = time.Second
	// starting is how long a channel may take to begin on a connection.
	starting = 30 * time.Second
)

// dialer opens channels to a server. It authenticates for the first one.
type dialer interface {
	channel(ctx context.Context) (*stream, error)
	close() // ends the connection
}

// stream is what a channel sends through, and how it ends.
type stream struct {
	in   io.WriteCloser
	out  io.Reader
	said *beginning // messages beside the protocol
	kill func()     // ends it at once
	wait func()     // returns when it has ended
	pid  int        // of its program; 0: it has none
}

// channel is one SFTP server process. It executes one request after the other, so that a flush delays those behind it.
type channel struct {
	*sftp.Client
	*stream
	began time.Time
	busy  atomic.Int32 // operations
	traffic
	ended chan struct{}
}

// traffic follows the requests of a channel and their answers: each request gets one. Times are in Unix nanoseconds.
type traffic struct {
	open  atomic.Int64 // requests without an answer
	since atomic.Int64 // when the first of them was sent, or the last byte came
	heard atomic.Int64 // when the last byte came
}

// silent returns for how long there have been open requests and nothing came.
func (t *traffic) silent(now time.Time) time.Duration {
	if t.open.Load() <= 0 {
		return 0
	}
	return now.Sub(time.Unix(0, t.since.Load()))
}

// asking counts the requests that are sent to the server.
type asking struct {
	io.WriteCloser
	messages
	*traffic
}

// Write counts and writes.
func (a *asking) Write(p []byte) (int, error) {
	if n := a.count(p); n > 0 && a.open.Add(n) == n {
		a.since.Store(time.Now().UnixNano())
	}
	return a.WriteCloser.Write(p)
}

// hearing counts the answers of the server, and notes when they come.
type hearing struct {
	io.Reader
	messages
	*traffic
}

// Read reads and counts.
func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		now := time.Now().UnixNano()
		h.since.Store(now)
		h.heard.Store(now)
		h.open.Add(-h.count(p[:n]))
	}
	return n, err
}

// messages counts the messages in a stream. Each begins with its length, in 4 bytes.
type messages struct {
	length uint32 // as far as it is known
	known  int    // bytes of length
	rest   uint32 // bytes of the message that are still to come
}

// count returns how many messages begin in p, which continues the stream; one begins when its length is complete.
func (m *messages) count(p []byte) (n int64) {
	for len(p) > 0 {
		if m.rest > 0 {
			step := min(len(p), int(m.rest))
			m.rest -= uint32(step)
			p = p[step:]
			continue
		}
		m.length, m.known, p = m.length<<8|uint32(p[0]), m.known+1, p[1:]
		if m.known == 4 {
			m.rest, m.length, m.known = m.length, 0, 0
			n++
		}
	}
	return n
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps p as far as there is room.
func (t *beginning) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[:min(len(p), saidAtMost-len(t.text))]...)
	return len(p), nil
}

func (t *beginning) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// program starts a program that speaks SFTP. It gets a process group of its own, so that Ctrl-C does not end it before
// this program has finished with it.
func program(run *exec.Cmd) (*stream, error) {
	in, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &beginning{}
	run.Stderr, run.SysProcAttr, run.WaitDelay = said, &syscall.SysProcAttr{Setpgid: true}, politely
	if err := run.Start(); err != nil {
		return nil, err
	}
	return &stream{in: in, out: out, said: said, pid: run.Process.Pid,
		kill: func() { _ = run.Process.Kill() }, wait: func() { _ = run.Wait() }}, nil
}

// start begins SFTP on a stream.
func start(ctx context.Context, on *stream) (_ *channel, err error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	c := &channel{stream: on, began: time.Now(), ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	c.Client, err = sftp.NewClientPipe(&hearing{Reader: on.out, traffic: &c.traffic},
		&asking{WriteCloser: on.in, traffic: &c.traffic}, sftp.MaxConcurrentRequestsPerFile(inFlight),
		sftp.UseConcurrentWrites(true))
	if err != nil {
		c.kill()
		c.wait()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &refusal{said: c.said.String(), cause: err}
	}
	go func() {
		_ = c.Wait()
		c.kill() // it has closed its output, and is of no more use
		c.wait()
		close(c.ended)
	}()
	return c, nil
}

// alive reports whether the channel has not ended.
func (c *channel) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// close ends the channel, at the latest after politely.
func (c *channel) close() {
	defer time.AfterFunc(politely, c.kill).Stop()
	_ = c.Close()
	<-c.ended
}

// errClosed: the store was closed.
var errClosed = errors.New("the connection was closed")

// pool holds the channels of a store.
type pool struct {
	host   string
	dialer dialer
	silent func(why string, since time.Time)
	back   func()

	dial sync.Mutex // held by the one that opens a channel while others wait for it

	mu      sync.Mutex
	most    int // channels
	live    []*channel
	opening bool // a further channel, in the background
	closed  bool
	ctx     context.Context // of the background
	stop    context.CancelFunc
	group   sync.WaitGroup
}

func newPool(host string, d dialer, o Options) *pool {
	p := &pool{host: host, dialer: d, most: max(minChannels, o.Channels), silent: o.Silent, back: o.Back}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.group.Go(p.watch)
	return p
}

// watch ends each channel that has been silent for too long, and reports when the server as a whole is silent and when
// it answers again.
func (p *pool) watch() {
	every := time.NewTicker(silence / 5)
	defer every.Stop()
	var reported time.Time // zero: the server is not silent
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-every.C:
			silent, heard := p.look(now)
			switch {
			case reported.IsZero() && silent >= silence && p.silent != nil:
				reported = now
				p.silent(p.host+" is silent", now.Add(-silent))
			case heard.After(reported) && !reported.IsZero():
				reported = time.Time{}
				if p.back != nil {
					p.back()
				}
			}
		}
	}
}

// look ends channels, and returns for how long none that has open requests has got anything, and when the server was
// heard last.
func (p *pool) look(now time.Time) (silent time.Duration, heard time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.live {
		if at := time.Unix(0, c.heard.Load()); at.After(heard) {
			heard = at
		}
		quiet := c.silent(now)
		if quiet > patience {
			c.kill()
		}
		if quiet > 0 && (silent == 0 || quiet < silent) {
			silent = quiet
		}
	}
	return silent, heard
}

// get returns the channel with the fewest operations that began at since or later, and counts an operation until
// release. If all are busy, a further one is opened in the background, since it takes several turns.
func (p *pool) get(ctx context.Context, since time.Time) (*channel, error) {
	if c, err := p.pick(since); c != nil || err != nil {
		return c, err
	}
	p.dial.Lock()
	defer p.dial.Unlock()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c, err := p.pick(since); c != nil || err != nil {
		return c, err
	}
	c, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	c.use()
	if !p.add(c) {
		return nil, errClosed
	}
	return c, nil
}

func (p *pool) open(ctx context.Context) (*channel, error) {
	on, err := p.dialer.channel(ctx)
	if err != nil {
		return nil, err
	}
	return start(ctx, on)
}

// pick returns a channel that is there; nil: there is none.
func (p *pool) pick(since time.Time) (best *channel, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.live = slices.DeleteFunc(p.live, func(c *channel) bool { return !c.alive() })
	for _, c := range p.live {
		if !c.began.Before(since) && (best == nil || c.busy.Load() < best.busy.Load()) {
			best = c
		}
	}
	if best == nil {
		return nil, nil
	}
	if best.busy.Load() > 0 && len(p.live) < p.most && !p.opening {
		p.opening = true
		p.group.Go(p.widen)
	}
	best.use()
	return best, nil
}

// widen opens a further channel. A server that refuses it is not asked again.
func (p *pool) widen() {
	c, err := p.open(p.ctx)
	if err == nil {
		p.add(c)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening = false
	if err != nil && len(p.live) > 0 {
		p.most = len(p.live)
	}
}

// add adds a channel; false: the pool is closed, and so is the channel.
func (p *pool) add(c *channel) bool {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.live = append(p.live, c)
	}
	p.mu.Unlock()
	if closed {
		c.close()
	}
	return !closed
}

func (c *channel) use() { c.busy.Add(1) }

func (c *channel) release() { c.busy.Add(-1) }

// close ends all channels and the connection.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	live := p.live
	p.live = nil
	p.mu.Unlock()
	p.stop()
	p.group.Wait()
	var all sync.WaitGroup
	for _, c := range live {
		all.Go(c.close)
	}
	all.Wait()
	p.dialer.close()
}

// endWith ends the channel if an operation goes on for grace after ctx has ended; done ends the operation.
func (c *channel) endWith(ctx context.Context) (done func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(grace):
			c.kill()
		}
	})
	return func() {
		stop()
		close(over)
	}
}
