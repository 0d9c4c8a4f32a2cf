package tune

import (
	"sync"
	"time"
)

// WaitTime sums the time that workers wait for one reason. Present waits count too, so a window in which a worker waits
// throughout includes that. The zero value is ready, and it is safe for concurrent use.
type WaitTime struct {
	mu    sync.Mutex
	total time.Duration // up to at
	at    time.Time
	now   int // waiting workers
}

// Begin records that a worker starts to wait.
func (s *WaitTime) Begin() { s.change(1) }

// End records that a worker continues.
func (s *WaitTime) End() { s.change(-1) }

// Time returns the sum so far.
func (s *WaitTime) Time() time.Duration { return s.change(0) }

func (s *WaitTime) change(by int) time.Duration {
	at := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed := at.Sub(s.at); s.at.IsZero() || passed > 0 { // a concurrent call may have a later time
		if s.now > 0 {
			s.total += time.Duration(s.now) * passed
		}
		s.at = at
	}
	s.now += by
	return s.total
}
