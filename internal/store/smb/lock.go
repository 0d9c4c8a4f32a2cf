package smb

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// fileLock is the read-write lock of a file in use: servers refuse to rename a file over one that is open. It works
// within one Store only.
type fileLock struct {
	users int // guarded by Store.mu
	sem   *semaphore.Weighted
}

// exclusive is the weight of a writer; a reader has the weight 1.
const exclusive = 1 << 20

// lock waits for the file, in the order of the calls. The caller calls release, which unlocks the file when what open
// counts is closed.
func (s *Store) lock(ctx context.Context, name store.Name, weight int64) (open *sync.WaitGroup, release func(),
	err error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = make(map[store.Name]*fileLock)
	}
	one := s.locks[name]
	if one == nil {
		one = &fileLock{sem: semaphore.NewWeighted(exclusive)}
		s.locks[name] = one
	}
	one.users++
	s.mu.Unlock()
	drop := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(s.locks, name)
		}
	}
	if one.sem.Acquire(ctx, weight) != nil {
		drop()
		return nil, nil, context.Cause(ctx)
	}
	open = &sync.WaitGroup{}
	return open, func() {
		s.inBackground(func() {
			open.Wait()
			one.sem.Release(weight)
			drop()
		})
	}, nil
}
