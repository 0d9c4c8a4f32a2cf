package session

import (
	"context"
	"sync"
)

// uploadSlots is a semaphore that bounds the concurrent uploads. Its limit can change.
type uploadSlots struct {
	mu    sync.Mutex
	limit int
	busy  int
	freed chan struct{} // closed and replaced when an upload ends or the limit rises
}

func newUploadSlots(limit int) *uploadSlots {
	return &uploadSlots{limit: limit, freed: make(chan struct{})}
}

// tryEnter takes a slot if one is free.
func (l *uploadSlots) tryEnter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take()
}

// take is tryEnter with mu held.
func (l *uploadSlots) take() bool {
	if l.busy >= l.limit {
		return false
	}
	l.busy++
	return true
}

// enter waits for a slot.
func (l *uploadSlots) enter(ctx context.Context) error { return l.await(ctx, l.take) }

// empty waits until no upload is running.
func (l *uploadSlots) empty(ctx context.Context) error {
	return l.await(ctx, func() bool { return l.busy == 0 })
}

// await waits until ok, which is called with mu held, returns true.
func (l *uploadSlots) await(ctx context.Context, ok func() bool) error {
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

// leave releases a slot.
func (l *uploadSlots) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.wake()
}

// set changes the limit. Running uploads continue.
func (l *uploadSlots) set(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = max(1, limit)
	l.wake()
}

func (l *uploadSlots) wake() {
	close(l.freed)
	l.freed = make(chan struct{})
}
