package iopolicy

import "time"

// further is how much longer each further call of a series may take until one of them must have waited for a device. The
// first has the time of a single operation, most of which is for being interrupted; to look something up in a cache takes
// less than a microsecond.
const further = int64(2 * time.Microsecond)

// Series makes several calls in a row one operation while a cache answers them, so that they share the price of the gate:
// twice as many each time, up to Most, and one by one again as soon as they have reached the device. So a call that makes
// a device work is an operation of its own, but for those of the one series by which that shows; and inside a window every
// call is one. The zero value goes one by one. It belongs to one goroutine at a time.
type Series struct {
	Most int // calls that one operation may be

	more int // than one
}

// Calls returns how many of n calls that are to be made, at least one, the operation of g may be.
func (s *Series) Calls(g Grant, n int) int {
	if g.mark&inside != 0 {
		return 1
	}
	return min(n, 1+s.more)
}

// End ends the operation of g after that many calls, at least one, which moved no bytes. In [Stats] each of them counts
// as an operation.
func (s *Series) End(g Grant, calls int) {
	if quick := g.end(0, calls, calls == 1); !quick {
		s.more = 0
		return
	}
	s.more = max(0, min(2*s.more+1, s.Most-1))
}
