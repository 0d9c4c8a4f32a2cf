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
	// grace is how long the requests of a cancelled operation may take before their channel is ended.
	grace = time.Second
	// starting is how long a channel may take to begin on a connection.
	starting = 30 * time.Second
)

// channel is one SFTP server process. It executes one request after the other, so that a flush delays those behind it.
type channel struct {
	*sftp.Client
	run   *exec.Cmd
	said  *beginning // the messages of ssh
	began time.Time
	busy  atomic.Int32 // operations
	heard atomic.Int64 // when the last byte came, or the last operation began; in Unix nanoseconds
	ended chan struct{}
}

// hearing notes when something comes from the server.
type hearing struct {
	io.Reader
	heard *atomic.Int64
}

// Read reads and notes the time.
func (h *hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.heard.Store(time.Now().UnixNano())
	return n, err
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

// start starts a program that speaks SFTP. It gets a process group of its own, so that Ctrl-C does not end it before
// this program has finished with it.
func start(ctx context.Context, run *exec.Cmd) (*channel, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	c := &channel{run: run, began: time.Now(), said: &beginning{}, ended: make(chan struct{})}
	in, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	run.Stderr, run.SysProcAttr, run.WaitDelay = c.said, &syscall.SysProcAttr{Setpgid: true}, politely
	if err := run.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	c.Client, err = sftp.NewClientPipe(&hearing{out, &c.heard}, in, sftp.MaxConcurrentRequestsPerFile(inFlight),
		sftp.UseConcurrentWrites(true))
	if err != nil {
		c.kill()
		_ = run.Wait()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &refusal{said: c.said.String(), cause: err}
	}
	go func() {
		_ = c.Wait()
		c.kill() // it has closed its output, and is of no more use
		_ = run.Wait()
		close(c.ended)
	}()
	go c.watch()
	return c, nil
}

// kill ends the program at once.
func (c *channel) kill() { _ = c.run.Process.Kill() }

// watch ends a channel that has been silent for too long.
func (c *channel) watch() {
	every := time.NewTicker(patience / 8)
	defer every.Stop()
	for {
		select {
		case <-c.ended:
			return
		case now := <-every.C:
			if c.busy.Load() > 0 && now.UnixNano()-c.heard.Load() > int64(patience) {
				c.kill()
			}
		}
	}
}

// alive reports whether the program runs.
func (c *channel) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// close ends the program, at the latest after politely.
func (c *channel) close() {
	defer time.AfterFunc(politely, c.kill).Stop()
	_ = c.Close()
	<-c.ended
}

// errClosed: the store was closed.
var errClosed = errors.New("the connection was closed")

// pool holds the channels of a store.
type pool struct {
	line *line

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

func newPool(l *line, most int) *pool {
	p := &pool{line: l, most: most}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
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
	run, err := p.line.command(ctx)
	if err != nil {
		return nil, err
	}
	return start(ctx, run)
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

func (c *channel) use() {
	c.busy.Add(1)
	c.heard.Store(time.Now().UnixNano())
}

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
	p.line.close()
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
