package iopolicy

import "time"

// further is the additional time that each further call of a series may take before it must have waited for a device.
// The first call has the time of a single operation, mostly an allowance for interrupts; a cached look-up takes less
// than a microsecond.
const further = int64(2 * time.Microsecond)

// Series combines several calls in a row into one operation while a cache answers them, which shares the cost of the
// gate: twice as many each time, up to Most, and single calls again after one has reached the device. So a call that
// reaches the device is an operation of its own, except in the one series that reveals it; inside a window every call
// is one. The zero value makes single calls. It belongs to one goroutine at a time.
type Series struct {
	Most int // calls that one operation may be

	more int // than one
}

// Calls returns how many of n calls, at least one, the operation of g may include.
func (s *Series) Calls(g Grant, n int) int {
	switch {
	case g.mark&inside == 0:
		return min(n, 1+s.more)
	case g.way.cost > 0:
		return min(n, 1+s.more, seriesInTurn)
	}
	return 1
}

// End ends the operation of g after that many calls, at least one, which moved no bytes. In [Stats] each call counts
// as an operation.
func (s *Series) End(g Grant, calls int) {
	if quick := g.end(0, calls, calls); !quick {
		s.more = 0
		return
	}
	s.more = max(0, min(2*s.more+1, s.Most-1))
}
