package repo

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Recent keeps the most recently used values, up to a total size. Concurrent requests for one key load its value once.
type Recent[K comparable, V any] struct {
	limit int
	cost  func(V) int // size of a value

	mu     sync.Mutex
	size   int
	values map[K]*recent[K, V]
	order  list.List // of *recent, most recently used first
}

// recent is a value that is kept, or one that is being loaded.
type recent[K comparable, V any] struct {
	key    K
	value  V
	err    error
	loaded chan struct{} // closed when value and err are set
	place  *list.Element // nil until it is kept
}

// NewRecent returns an empty cache. cost returns the size of a value.
func NewRecent[K comparable, V any](limit int, cost func(V) int) *Recent[K, V] {
	return &Recent[K, V]{limit: limit, cost: cost, values: make(map[K]*recent[K, V])}
}

// Get returns the value of a key, which the caller must not change. An error is not kept.
func (c *Recent[K, V]) Get(ctx context.Context, key K, load func() (V, error)) (none V, err error) {
	for {
		c.mu.Lock()
		e, joined := c.values[key]
		if joined && e.place != nil {
			c.order.MoveToFront(e.place)
			c.mu.Unlock()
			return e.value, nil
		}
		if !joined {
			e = &recent[K, V]{key: key, loaded: make(chan struct{})}
			c.values[key] = e
		}
		c.mu.Unlock()
		if !joined {
			e.value, e.err = load()
			c.keep(e)
			return e.value, e.err
		}
		select {
		case <-e.loaded:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
		if !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return e.value, e.err
		}
		// The loading goroutine was cancelled. This caller was not, so it tries again.
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
	}
}

// keep ends a loading and keeps its value.
func (c *Recent[K, V]) keep(e *recent[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.loaded)
	if e.err != nil || c.cost(e.value) > c.limit {
		delete(c.values, e.key)
		return
	}
	e.place = c.order.PushFront(e)
	c.size += c.cost(e.value)
	for c.size > c.limit {
		last := c.order.Remove(c.order.Back()).(*recent[K, V])
		delete(c.values, last.key)
		c.size -= c.cost(last.value)
	}
}
