package report

import "slices"

// PoolSizes is the numbers of workers of a backup and its compression level from one time on, and the measurement that
// led to them. The measurement is empty at the start.
type PoolSizes struct {
	Since       float64  `json:"since_seconds"` // from the start of the job
	Readers     int      `json:"readers"`       // in effect
	Compressors int      `json:"compressors"`
	Uploads     int      `json:"uploads"`
	Level       int      `json:"compression_level"`
	Bottleneck  string   `json:"bottleneck,omitempty"`       // reason: `source`, `processors` or `target`
	Speed       *float64 `json:"bytes_per_second,omitempty"` // throughput, plus 32 KiB per object
	Starved     *float64 `json:"starved,omitempty"`          // ratio: compressors without data
	Blocked     *float64 `json:"blocked,omitempty"`          // ratio: compressors blocked by the target
	Busy        *float64 `json:"busy,omitempty"`             // ratio: processor use
}

// mostSizes bounds the memory for a run of several days.
const mostSizes = 256

// Resized records that c applies from now on. The newest 256 are kept.
func (l *Ledger) Resized(c PoolSizes) {
	c.Since = l.since().Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sizes) == mostSizes {
		l.sizes = slices.Delete(l.sizes, 0, 1)
	}
	l.sizes = append(l.sizes, c)
}
