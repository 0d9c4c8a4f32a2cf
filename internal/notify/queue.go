package notify

import (
	"context"
	"time"
)

// queue passes values to a function in a goroutine of its own.
type queue[T any] struct {
	values chan T
	stop   context.CancelFunc
	ended  chan struct{}
}

func newQueue[T any](size int, do func(context.Context, T)) *queue[T] {
	ctx, stop := context.WithCancel(context.Background())
	q := &queue[T]{values: make(chan T, size), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(q.ended)
		for v := range q.values {
			if ctx.Err() == nil {
				do(ctx, v)
			}
		}
	}()
	return q
}

// put returns false if the queue is full. It never waits.
func (q *queue[T]) put(v T) bool {
	select {
	case q.values <- v:
		return true
	default:
		return false
	}
}

// close waits up to a time until the queue is empty, and drops the rest. There must be no put after it.
func (q *queue[T]) close(wait time.Duration) {
	close(q.values)
	select {
	case <-q.ended:
	case <-time.After(wait):
	}
	q.stop()
}
