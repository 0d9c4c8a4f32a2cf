package tune

import (
	"context"
	"time"
)

// A window ends when it can be compared with others: after some packs of work, or some seconds of a slow run. Below
// half a second the unit of work, one mebibyte, is too coarse. Busy processors show in a second: ten periods of a
// quota.
const (
	windowLeast = 500 * time.Millisecond
	windowBusy  = time.Second
	windowMost  = 5 * time.Second
	windowWork  = 64 << 20
	// leastFree is the least part of a window in which I/O is taken to go on.
	leastFree = 0.1
)

// Counters never decrease.
type Counters struct {
	Work    int64         // see Sample
	Starved time.Duration // of all compressors together
	Blocked time.Duration
	Busy    time.Duration // of the available processors, divided by their number
	Held    time.Duration // a gate held back all I/O, so that only what was read before kept processors busy
}

// Pipeline is the system that a tuner controls. One goroutine calls its methods.
type Pipeline interface {
	Counters() Counters
	// Apply applies a setting; seen is the last sample, zero at the start.
	Apply(s Setting, seen Sample)
}

// Follow lets t control a plant until ctx ends. If the bounds fix every value, it returns at once.
func Follow(ctx context.Context, t *Tuner, p Pipeline) {
	if t.bounds.Least == t.bounds.Most {
		return
	}
	p.Apply(t.now, Sample{})
	ticker := time.NewTicker(windowLeast)
	defer ticker.Stop()
	last, begin := p.Counters(), time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now, took := p.Counters(), time.Since(begin)
		seen := now.since(&last, took, t.now.Compressors)
		if !seen.enough() {
			continue
		}
		before := t.now
		if s := t.Next(seen); s != before {
			p.Apply(s, seen)
		}
		last, begin = now, begin.Add(took)
	}
}

// enough reports whether a window may end.
func (s *Sample) enough() bool {
	return s.Elapsed >= windowMost || s.Work >= windowWork || s.Elapsed >= windowBusy && s.saturated()
}

// since returns the sample of the time since earlier counters.
func (c *Counters) since(before *Counters, took time.Duration, compressors int) Sample {
	share := func(d time.Duration, of float64) float64 {
		return min(max(float64(d)/(float64(took)*of), 0), 1)
	}
	all, free := float64(compressors), max(leastFree, 1-share(c.Held-before.Held, 1))
	return Sample{
		Elapsed: took, Work: float64(c.Work - before.Work), Starved: share(c.Starved-before.Starved, all),
		Blocked: share(c.Blocked-before.Blocked, all), Busy: share(c.Busy-before.Busy, free),
	}
}
