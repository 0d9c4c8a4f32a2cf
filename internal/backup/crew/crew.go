// Package crew holds what the stages of a pipeline hand work over with: a number of workers that can change while they
// work, and a fixed number of buffers. It knows nothing of what the work is.
package crew

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/tune"
)

// Crew is the workers of one stage.
type Crew struct {
	Start func()        // begins one more worker; set before Begin
	Idle  tune.Standing // its workers, for want of work

	mu      sync.Mutex
	running int
	wanted  int
	sealed  bool
}

// Begin starts the first n workers.
func (c *Crew) Begin(n int) { c.Set(n) }

// Set changes the number of workers: more begin at once, those who are too many leave between two pieces of work.
func (c *Crew) Set(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return
	}
	c.wanted = max(1, n)
	for c.running < c.wanted {
		c.running++
		c.Start()
	}
}

// Seal ends all changes: no worker begins any more, and those who are there stay until there is no more work.
func (c *Crew) Seal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
}

// leave reports whether a worker is one too many, and has left by that.
func (c *Crew) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed || c.running <= c.wanted {
		return false
	}
	c.running--
	return true
}

// Take yields work from a channel until it is closed, or until c has a worker too many and this is the one who leaves.
// It returns what do returns, at the first error.
func Take[T any](from <-chan T, c *Crew, do func(T) error) error {
	for !c.leave() {
		work, ok := next(from, c)
		if !ok {
			return nil
		}
		if err := do(work); err != nil {
			return err
		}
	}
	return nil
}

func next[T any](from <-chan T, c *Crew) (T, bool) {
	select {
	case work, ok := <-from:
		return work, ok
	default:
	}
	c.Idle.Begin()
	defer c.Idle.End()
	work, ok := <-from
	return work, ok
}

// Hand passes work to a stage.
func Hand[T any](ctx context.Context, to chan<- T, work T) error {
	select {
	case to <- work:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
