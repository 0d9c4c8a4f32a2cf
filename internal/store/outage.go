package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// Outage is what was told about a target that fails for a while, so that many who wait for it at the same time tell it
// once. The zero value is ready, for any number of goroutines.
type Outage struct {
	told    atomic.Bool // something was, and the end was not
	mu      sync.Mutex
	waiting int
	reasons map[string]bool
	longest time.Duration
}

// Begin says that somebody begins to wait; End must follow.
func (o *Outage) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
}

// News reports whether a wait is worth telling: its reason is another one, or it is longer than any before. pause is the
// wait without what chance adds to it.
func (o *Outage) News(reason string, pause time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reasons[reason] && pause <= o.longest {
		return false
	}
	if o.reasons == nil {
		o.reasons = make(map[string]bool)
	}
	o.reasons[reason] = true
	o.longest = max(o.longest, pause)
	o.told.Store(true)
	return true
}

// End says that somebody waits no longer, and reports whether that is the end of an outage that was told: what was waited
// for has succeeded, and nobody else waits.
func (o *Outage) End(succeeded bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
	return succeeded && o.over()
}

// Over says that something has succeeded at once, and reports what End does.
func (o *Outage) Over() bool {
	if !o.told.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over()
}

func (o *Outage) over() bool {
	if o.waiting > 0 || !o.told.Swap(false) {
		return false
	}
	o.reasons, o.longest = nil, 0
	return true
}
