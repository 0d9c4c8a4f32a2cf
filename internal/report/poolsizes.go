package report

import (
	"slices"
	"time"
)

// PoolSizes is the numbers of workers of a backup and its compression level from one time on, and the measurement that
// led to them. The measurement is empty at the start.
type PoolSizes struct {
	Since                                time.Duration // from the start of the job
	Readers, Compressors, Uploads, Level int
	Bottleneck                           string // "source", "processors" or "target"
	// bytes per second, including those counted for each object besides its content
	Speed                  float64
	Starved, Blocked, Busy float64 // shares, 0 to 1; see package tune
}

// mostSizes bounds the memory for a run of several days.
const mostSizes = 256

// Resized records that c applies from now on. The newest 256 are kept.
func (l *Ledger) Resized(c PoolSizes) {
	c.Since = l.since()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sizes) == mostSizes {
		l.sizes = slices.Delete(l.sizes, 0, 1)
	}
	l.sizes = append(l.sizes, c)
}
