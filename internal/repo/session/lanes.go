package session

import (
	"context"
	"sync"
)

// lanes bounds how many uploads are under way. Unlike those of a semaphore its number can change meanwhile.
type lanes struct {
	mu    sync.Mutex
	limit int
	busy  int
	freed chan struct{} // closed, and replaced, when an upload ends or there may be more
}

func newLanes(limit int) *lanes { return &lanes{limit: limit, freed: make(chan struct{})} }

// tryEnter takes a lane if one is free.
func (l *lanes) tryEnter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy >= l.limit {
		return false
	}
	l.busy++
	return true
}

// enter waits for a lane.
func (l *lanes) enter(ctx context.Context) error {
	return l.await(ctx, func() bool {
		if l.busy >= l.limit {
			return false
		}
		l.busy++
		return true
	})
}

// empty waits until no upload is under way.
func (l *lanes) empty(ctx context.Context) error {
	return l.await(ctx, func() bool { return l.busy == 0 })
}

// await waits until ok, which is asked with mu held.
func (l *lanes) await(ctx context.Context, ok func() bool) error {
	for {
		l.mu.Lock()
		done, freed := ok(), l.freed
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leave gives a lane back.
func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.wake()
}

// set changes the number of lanes. What is under way goes on.
func (l *lanes) set(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = max(1, limit)
	l.wake()
}

func (l *lanes) wake() {
	close(l.freed)
	l.freed = make(chan struct{})
}
