package backup

import (
	"context"
	"sync"
	"time"
)

// crew is the workers of one stage. It starts small; whoever has waited longer than the threshold to hand over a piece
// of work asks for one worker more, up to the bound. That is the monitor of the resource-utilization dial: it needs no
// goroutine of its own, since those who wait are awake to notice.
type crew struct {
	threshold time.Duration // 0: never grows
	start     func()        // one more worker

	mu      sync.Mutex
	running int
	bound   int
}

func (c *crew) begin(n, bound int) {
	c.mu.Lock()
	c.running, c.bound = n, max(n, bound)
	c.mu.Unlock()
	for range n {
		c.start()
	}
}

// grow adds a worker unless the bound is reached.
func (c *crew) grow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running < c.bound {
		c.running++
		c.start()
	}
}

// hand passes work to a stage, and lets the stage's crew grow when nobody takes it for too long.
func hand[T any](ctx context.Context, to chan<- T, work T, c *crew) error {
	select {
	case to <- work:
		return nil
	default:
	}
	var late <-chan time.Time
	if c.threshold > 0 {
		ticker := time.NewTicker(c.threshold)
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
