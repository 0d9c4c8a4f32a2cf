package repo

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// frameKey names a frame permanently: pack numbers change when a cache is rebuilt, IDs do not.
type frameKey struct {
	pack   format.ID
	offset uint32
}

// frameCache keeps the most recently used frames, up to a number of bytes. Concurrent requests for one frame open it
// once.
type frameCache struct {
	limit int

	mu      sync.Mutex
	size    int
	frames  map[frameKey]*list.Element // of *cachedFrame
	order   *list.List                 // most recently used first
	flights map[frameKey]*flight
}

type cachedFrame struct {
	key frameKey
	raw []byte
}

// flight is the opening of a frame for which other goroutines wait.
type flight struct {
	done chan struct{} // closed when raw and err are set
	raw  []byte
	err  error
}

func newFrameCache(limit int) *frameCache {
	return &frameCache{
		limit:   limit,
		frames:  make(map[frameKey]*list.Element),
		order:   list.New(),
		flights: make(map[frameKey]*flight),
	}
}

// get returns the opened frame, which the caller must not change.
func (c *frameCache) get(ctx context.Context, key frameKey, load func() ([]byte, error)) ([]byte, error) {
	for {
		c.mu.Lock()
		if e, ok := c.frames[key]; ok {
			c.order.MoveToFront(e)
			c.mu.Unlock()
			return e.Value.(*cachedFrame).raw, nil
		}
		f, joined := c.flights[key]
		if !joined {
			f = &flight{done: make(chan struct{})}
			c.flights[key] = f
		}
		c.mu.Unlock()
		if !joined {
			f.raw, f.err = load()
			c.land(key, f)
			return f.raw, f.err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return f.raw, f.err
		}
		// The loading goroutine was cancelled. This caller was not, so it tries again.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// land ends a flight and caches its result.
func (c *frameCache) land(key frameKey, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	close(f.done)
	if f.err != nil || len(f.raw) > c.limit {
		return
	}
	c.frames[key] = c.order.PushFront(&cachedFrame{key, f.raw})
	c.size += len(f.raw)
	for c.size > c.limit {
		last := c.order.Remove(c.order.Back()).(*cachedFrame)
		delete(c.frames, last.key)
		c.size -= len(last.raw)
	}
}
