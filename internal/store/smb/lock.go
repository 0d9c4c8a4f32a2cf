package smb

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// fileLocks holds a read-write lock for each file in use: servers refuse to rename a file over one that is open. It
// works within one Store only. The zero value is ready, for any number of goroutines.
type fileLocks struct {
	mu   sync.Mutex
	held map[store.Name]*fileLock
}

type fileLock struct {
	users int // guarded by fileLocks.mu
	sem   *semaphore.Weighted
}

// exclusive is the weight of a writer; a reader has the weight 1.
const exclusive = 1 << 20

// lock waits for the file, in the order of the calls. The caller must call release.
func (l *fileLocks) lock(ctx context.Context, name store.Name, weight int64) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = make(map[store.Name]*fileLock)
	}
	one := l.held[name]
	if one == nil {
		one = &fileLock{sem: semaphore.NewWeighted(exclusive)}
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
