package notify

import "time"

// queue passes values to a function in a goroutine of its own.
type queue[T any] struct {
	values chan T
	ended  chan struct{}
}

func newQueue[T any](size int, do func(T)) *queue[T] {
	q := &queue[T]{make(chan T, size), make(chan struct{})}
	go func() {
		defer close(q.ended)
		for v := range q.values {
			do(v)
		}
	}()
	return q
}

// put drops the value if the queue is full. It never waits.
func (q *queue[T]) put(v T) {
	select {
	case q.values <- v:
	default:
	}
}

// close waits up to a time until the queue is empty. There must be no put after it.
func (q *queue[T]) close(wait time.Duration) {
	close(q.values)
	select {
	case <-q.ended:
	case <-time.After(wait):
	}
}
