package tune

import (
	"context"
	"time"
)

// A window ends when enough was seen to be compared with others: some packs' worth of work, or some seconds of a slow
// run. Within less than half a second the units in which work is counted, a mebibyte each, are too coarse.
const (
	windowLeast = 500 * time.Millisecond
	windowMost  = 5 * time.Second
	windowWork  = 64 << 20
)

// Counters only grow.
type Counters struct {
	Work    int64         // see Sample
	Starved time.Duration // of all compressors together
	Blocked time.Duration
}

// Plant is what a tuner drives. Its methods are called by one goroutine.
type Plant interface {
	Counters() Counters
	Apply(s Setting)
}

// Follow has t drive a plant until ctx ends. Where nothing may change it returns at once.
func Follow(ctx context.Context, t *Tuner, p Plant) {
	if t.bounds.Least == t.bounds.Most {
		return
	}
	p.Apply(t.now)
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
		if took < windowMost && now.Work-last.Work < windowWork {
			continue
		}
		before := t.now
		if s := t.Next(now.since(&last, took, before.Compressors)); s != before {
			p.Apply(s)
		}
		last, begin = now, begin.Add(took)
	}
}

// since returns what happened during the time since an earlier look.
func (c *Counters) since(before *Counters, took time.Duration, compressors int) Sample {
	all := took.Seconds() * float64(compressors)
	share := func(d time.Duration) float64 { return min(max(d.Seconds()/all, 0), 1) }
	return Sample{
		Elapsed: took, Work: float64(c.Work - before.Work),
		Starved: share(c.Starved - before.Starved), Blocked: share(c.Blocked - before.Blocked),
	}
}
