package read

import "sync/atomic"

// Semaphore is a number of permits that are never waited for: a goroutine that gets none goes on with what it has.
type Semaphore struct{ free atomic.Int64 }

// NewSemaphore returns one with n permits.
func NewSemaphore(n int) *Semaphore {
	s := &Semaphore{}
	s.Release(n)
	return s
}

// TryAcquire takes a permit if one is free.
func (s *Semaphore) TryAcquire() bool {
	for {
		n := s.free.Load()
		if n <= 0 {
			return false
		}
		if s.free.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// Release returns n permits.
func (s *Semaphore) Release(n int) { s.free.Add(int64(n)) }
