package tune

import (
	"sync"
	"time"
)

// Standing adds up the time in which workers stand still for one reason. Those who stand still at the moment count, so a
// window in which somebody waits throughout shows that. Its zero value is ready, and it is safe for concurrent use.
type Standing struct {
	mu    sync.Mutex
	total time.Duration // up to at
	at    time.Time
	now   int // how many stand still
}

// Begin says that somebody stands still from now on.
func (s *Standing) Begin() { s.change(1) }

// End says that one of them goes on.
func (s *Standing) End() { s.change(-1) }

// Time returns the time of all of them so far.
func (s *Standing) Time() time.Duration { return s.change(0) }

func (s *Standing) change(by int) time.Duration {
	at := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if passed := at.Sub(s.at); s.at.IsZero() || passed > 0 { // another may have come first with a later moment
		if s.now > 0 {
			s.total += time.Duration(s.now) * passed
		}
		s.at = at
	}
	s.now += by
	return s.total
}
