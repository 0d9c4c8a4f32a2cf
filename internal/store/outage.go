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

// Begin says that somebody waits, and notes in waited that it does: it counts once until Leave.
func (o *Outage) Begin(waited *bool) {
	if *waited {
		return
	}
	*waited = true
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

// Leave says that somebody is done, after Begin (waited) or without, and tells back, unless it is nil, if that is the end of an
// outage that was told: what was tried has succeeded, and nobody else waits.
func (o *Outage) Leave(waited bool, err error, back func()) {
	if !waited && !o.told.Load() {
		return
	}
	o.mu.Lock()
	if waited {
		o.waiting--
	}
	over := err == nil && o.waiting == 0 && o.told.Swap(false)
	if over {
		o.reasons, o.longest = nil, 0
	}
	o.mu.Unlock()
	if over && back != nil {
		back()
	}
}
