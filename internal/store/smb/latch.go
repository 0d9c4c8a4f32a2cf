package smb

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// latches keep readers of a file of this Store from the moment in which it is replaced: a server refuses to rename a file
// over one that is open. Readers of other processes are waited for by trying again.
type latches struct {
	mu   sync.Mutex
	held map[store.Name]*latch
}

type latch struct {
	users int // guarded by latches.mu
	sem   *semaphore.Weighted
}

// writers is the weight of one who must be alone.
const writers = 1 << 20

// take waits for the file, alone or with others that read it; release must be called. Who came first goes first.
func (l *latches) take(ctx context.Context, name store.Name, alone bool) (release func(), err error) {
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
