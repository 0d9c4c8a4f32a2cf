// Package crew holds what the stages of a pipeline hand work over with: a number of workers that grows when work waits
// for too long, and a fixed number of buffers. It knows nothing of what the work is.
package crew

import (
	"context"
	"sync"
	"time"
)

// Crew is the workers of one stage. It starts small; whoever has waited longer than the threshold to hand over a piece
// of work asks for one worker more, up to the bound. That is the monitor of the resource-utilization dial: it needs no
// goroutine of its own, since those who wait are awake to notice.
type Crew struct {
	Threshold time.Duration // 0: never grows
	Start     func()        // begins one more worker; set before Begin

	mu      sync.Mutex
	running int
	bound   int
}

// Begin starts the first n workers; bound is how many there may be in the end.
func (c *Crew) Begin(n, bound int) {
	c.mu.Lock()
	c.running, c.bound = n, max(n, bound)
	c.mu.Unlock()
	for range n {
		c.Start()
	}
}

// grow adds a worker unless the bound is reached.
func (c *Crew) grow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running < c.bound {
		c.running++
		c.Start()
	}
}

// Hand passes work to a stage, and lets the stage's crew grow when nobody takes it for too long.
func Hand[T any](ctx context.Context, to chan<- T, work T, c *Crew) error {
	select {
	case to <- work:
		return nil
	default:
	}
	var late <-chan time.Time
	if c.Threshold > 0 {
		ticker := time.NewTicker(c.Threshold)
		defer ticker.Stop()
		late = ticker.C
	}
	for {
		select {
		case to <- work:
			return nil
		case <-late:
			c.grow()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
