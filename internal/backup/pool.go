package backup

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/tune"
)

// pool is the workers of one stage, whose number can change while they work.
type pool struct {
	start func()        // starts one worker, which calls receive; set before Resize, and called by workers too
	idle  tune.WaitTime // its workers, for want of work

	mu      sync.Mutex
	running int
	wanted  int
	closed  bool
}

// Resize sets the number of workers. Extra workers start immediately; surplus workers exit after their current item.
func (p *pool) Resize(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.wanted = max(1, n)
	for p.running < p.wanted {
		p.running++
		p.start()
	}
}

// Close ends all changes: no worker starts any more, and those that run stay until there is no more work.
func (p *pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// leave reports whether the calling worker is surplus, and counts it as gone.
func (p *pool) leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.running <= p.wanted {
		return false
	}
	p.running--
	return true
}

// receive calls do with work from a channel until the channel is closed, do fails, or the calling worker of p is
// surplus. Once over reports true, another worker takes its place.
func receive[T any](from <-chan T, p *pool, over func() bool, do func(T) error) error {
	for !p.leave() {
		work, ok := next(from, p)
		if !ok {
			return nil
		}
		if err := do(work); err != nil {
			return err
		}
		if over() {
			p.start()
			return nil
		}
	}
	return nil
}

func next[T any](from <-chan T, p *pool) (T, bool) {
	select {
	case work, ok := <-from:
		return work, ok
	default:
	}
	p.idle.Begin()
	defer p.idle.End()
	work, ok := <-from
	return work, ok
}

// send hands work to a stage.
func send[T any](ctx context.Context, to chan<- T, work T) error {
	select {
	case to <- work:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
