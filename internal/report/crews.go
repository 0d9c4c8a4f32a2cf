package report

import (
	"slices"
	"time"
)

// Crews is how many workers a backup had from some moment on, how hard they compressed, and what was seen before that
// made it so. What was seen is empty at the start.
type Crews struct {
	Since                                time.Duration // from the start of the job
	Readers, Compressors, Uploads, Level int
	Bottleneck                           string  // "source", "processors" or "target"
	Speed                                float64 // bytes a second, those that an object counts besides its content included
	Starved, Blocked, Busy               float64 // shares, 0 to 1; see package tune
}

// mostCrews bounds what is kept of a run that goes on for days.
const mostCrews = 256

// Crewed notes that c holds from now on. The newest 256 are kept.
func (l *Ledger) Crewed(c Crews) {
	c.Since = l.since()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.crews) == mostCrews {
		l.crews = slices.Delete(l.crews, 0, 1)
	}
	l.crews = append(l.crews, c)
}
