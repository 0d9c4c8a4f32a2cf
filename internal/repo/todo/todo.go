// Package todo has the work that several goroutines share while they follow trees: each piece that is done may bring more.
// The last that came is the first to be done, so that neighbours are read together and little is kept waiting.
//
// It refuses to know what the work is, and whether it was done before.
package todo

import (
	"context"
	"sync"
)

// Stack is the work that is still to be done.
type Stack[T any] struct {
	mu    sync.Mutex
	more  *sync.Cond
	items []T
	busy  int // pieces that somebody does, and that may bring more
}

// New returns a stack without work.
func New[T any]() *Stack[T] {
	s := &Stack[T]{}
	s.more = sync.NewCond(&s.mu)
	return s
}

// Push adds pieces of work; the last is done first. It is safe for concurrent use.
func (s *Stack[T]) Push(items ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, items...)
	if len(items) == 1 {
		s.more.Signal()
	} else if len(items) > 1 {
		s.more.Broadcast()
	}
}

// Each does work until there is none and nobody does any that may bring more. Several goroutines call it at once. It ends
// at the first error of do, or when the context is cancelled, with its cause; to end the others is for the caller, by
// cancelling theirs.
func (s *Stack[T]) Each(ctx context.Context, do func(T) error) error {
	defer context.AfterFunc(ctx, s.wake)()
	for {
		item, ok := s.pop(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		err := do(item)
		s.done()
		if err != nil {
			return err
		}
	}
}

func (s *Stack[T]) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.more.Broadcast()
}

// pop waits for work; false: there is none and there will be none, or the context is cancelled.
func (s *Stack[T]) pop(ctx context.Context) (item T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.items) == 0 && s.busy > 0 && ctx.Err() == nil {
		s.more.Wait()
	}
	if len(s.items) == 0 || ctx.Err() != nil {
		return item, false
	}
	item = s.items[len(s.items)-1]
	s.items = s.items[:len(s.items)-1]
	s.busy++
	return item, true
}

func (s *Stack[T]) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 {
		s.more.Broadcast()
	}
}
