// Package latch keeps those who read a file apart from one who replaces it, within one program: a server refuses to rename a
// file over one that is open. It knows names and turns, and refuses to know what is done to the file, and of other programs.
package latch

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Set has a latch for each file that is in use. The zero value is ready, and serves many goroutines.
type Set struct {
	mu   sync.Mutex
	held map[store.Name]*latch
}

type latch struct {
	users int // guarded by Set.mu
	sem   *semaphore.Weighted
}

// writers is the weight of one who must be alone.
const writers = 1 << 20

// Take waits for the file, alone or with others that read it; release must be called. Who came first goes first.
func (l *Set) Take(ctx context.Context, name store.Name, alone bool) (release func(), err error) {
	weight := int64(1)
	if alone {
		weight = writers
	}
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[store.Name]*latch)
	}
	one := l.held[name]
	if one == nil {
		one = &latch{sem: semaphore.NewWeighted(writers)}
		l.held[name] = one
	}
	one.users++
	l.mu.Unlock()
	drop := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, name)
		}
	}
	if one.sem.Acquire(ctx, weight) != nil {
		drop()
		return nil, context.Cause(ctx)
	}
	return func() {
		one.sem.Release(weight)
		drop()
	}, nil
}
