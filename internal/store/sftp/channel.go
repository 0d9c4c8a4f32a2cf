package sftp

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"github.com/tidemark-backup/tidemark/internal/store"
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
	store.Use // operations
	traffic   *traffic
	ended     chan struct{}
}

// traffic follows the requests of a channel and their answers: each request gets one. Times are in Unix nanoseconds.
type traffic struct {
	in        io.WriteCloser
	out       io.Reader
	sent, got messages
	open      atomic.Int64 // requests without an answer
	since     atomic.Int64 // when the first of them was sent, or the last byte came
	heard     atomic.Int64 // when the last byte came
}

// silent returns for how long there have been open requests and nothing came.
func (t *traffic) silent(now time.Time) time.Duration {
	if t.open.Load() <= 0 {
		return 0
	}
	return now.Sub(time.Unix(0, t.since.Load()))
}

// Write sends requests.
func (t *traffic) Write(p []byte) (int, error) {
	if n := t.sent.count(p); n > 0 && t.open.Add(n) == n {
		t.since.Store(time.Now().UnixNano())
	}
	return t.in.Write(p)
}

// Read returns answers.
func (t *traffic) Read(p []byte) (int, error) {
	n, err := t.out.Read(p)
	if n > 0 {
		now := time.Now().UnixNano()
		t.since.Store(now)
		t.heard.Store(now)
		t.open.Add(-t.got.count(p[:n]))
	}
	return n, err
}

// Close ends the requests.
func (t *traffic) Close() error { return t.in.Close() }

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
	c := &channel{stream: on, ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	c.traffic = &traffic{in: on.in, out: on.out}
	c.Client, err = sftp.NewClientPipe(c.traffic, c.traffic, sftp.MaxConcurrentRequestsPerFile(inFlight),
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

// Alive reports whether the channel has not ended.
func (c *channel) Alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// Retire ends the channel, at the latest after politely.
func (c *channel) Retire() {
	defer time.AfterFunc(politely, c.kill).Stop()
	_ = c.Close()
	<-c.ended
}

// errClosed: the store was closed.
var errClosed = errors.New("the connection was closed")

// pool holds the channels of a store. While all are busy, a further one is opened, since that takes several turns.
type pool struct {
	*store.Pool[*channel]
	host   string
	dialer dialer
	silent func(why string, since time.Time)
	back   func()
	stop   context.CancelFunc // ends watching
	group  sync.WaitGroup
}

func newPool(host string, d dialer, o Options) *pool {
	p := &pool{host: host, dialer: d, silent: o.Silent, back: o.Back}
	p.Pool = store.NewPool(max(minChannels, o.Channels), func(ctx context.Context) (*channel, error) {
		on, err := d.channel(ctx)
		if err != nil {
			return nil, err
		}
		return start(ctx, on)
	})
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.group.Go(func() { p.watch(ctx) })
	return p
}

// watch ends each channel that has been silent for too long, and reports when the server as a whole is silent and when
// it answers again.
func (p *pool) watch(ctx context.Context) {
	every := time.NewTicker(silence / 5)
	defer every.Stop()
	var reported time.Time // zero: the server is not silent
	for {
		select {
		case <-ctx.Done():
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
	for _, c := range p.Live() {
		if at := time.Unix(0, c.traffic.heard.Load()); at.After(heard) {
			heard = at
		}
		quiet := c.traffic.silent(now)
		if quiet > patience {
			c.kill()
		}
		if quiet > 0 && (silent == 0 || quiet < silent) {
			silent = quiet
		}
	}
	return silent, heard
}

// close ends all channels and the connection.
func (p *pool) close() {
	live := p.End(errClosed)
	p.stop()
	p.group.Wait()
	p.Wait()
	var all sync.WaitGroup
	for _, c := range live {
		all.Go(c.Retire)
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
