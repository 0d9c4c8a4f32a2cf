package report

import (
	"sync"
	"time"
)

// LeastOutage is the shortest time without an answer that texts mention.
const LeastOutage = time.Second

// Outages are the times in which a target does not answer, and what failed is tried again. The zero value is ready, for
// any number of goroutines.
type Outages struct {
	mu    sync.Mutex
	why   string    // of the present one; "": there is none
	since time.Time // when it began
	ended time.Duration
}

// Outage is what reports say of the outages of a job.
type Outage struct {
	Why  string        // of the one that lasts; "": the target answers
	Took time.Duration // of all of them so far
}

// Begin begins an outage, or gives the present one another reason.
func (o *Outages) Begin(why string) { o.BeginAt(why, time.Now()) }

// BeginAt is Begin for an outage that began earlier and is only noticed now.
func (o *Outages) BeginAt(why string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == "" {
		o.since = at
	}
	o.why = why
}

// End ends the present outage.
func (o *Outages) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why != "" {
		o.ended += time.Since(o.since)
		o.why = ""
	}
}

// now returns what there is to report.
func (o *Outages) now() Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == "" {
		return Outage{Took: o.ended}
	}
	return Outage{o.why, o.ended + time.Since(o.since)}
}
