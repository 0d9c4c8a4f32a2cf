package reach

import (
	"context"
	"sync"
)

// queue is the work that several goroutines share while they follow trees: each item may add more. The newest item is
// taken first, so that neighbours are read together and the queue stays short.
type queue[T any] struct {
	mu     sync.Mutex
	more   *sync.Cond
	items  []T
	active int // items that are being processed, and may add more
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.more = sync.NewCond(&q.mu)
	return q
}

// push adds items; the last is taken first. It is safe for concurrent use.
func (q *queue[T]) push(items ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
	if len(items) == 1 {
		q.more.Signal()
	} else if len(items) > 1 {
		q.more.Broadcast()
	}
}

// each processes items until the queue is empty and no goroutine is processing an item. Several goroutines call it at
// once. It returns the first error of do, or the cause when the context is cancelled. The caller stops the other
// goroutines by cancelling their context.
func (q *queue[T]) each(ctx context.Context, do func(T) error) error {
	defer context.AfterFunc(ctx, q.wake)()
	for {
		item, ok := q.pop(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		err := do(item)
		q.done()
		if err != nil {
			return err
		}
	}
}

func (q *queue[T]) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.more.Broadcast()
}

// pop waits for an item. It returns false when no item can come any more, or when the context is cancelled.
func (q *queue[T]) pop(ctx context.Context) (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && q.active > 0 && ctx.Err() == nil {
		q.more.Wait()
	}
	if len(q.items) == 0 || ctx.Err() != nil {
		return item, false
	}
	item = q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	q.active++
	return item, true
}

func (q *queue[T]) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.active--; q.active == 0 {
		q.more.Broadcast()
	}
}
