package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Outage collects what was reported about a target that fails for a while, so that concurrent operations report it
// once. The zero value is ready, for any number of goroutines.
type Outage struct {
	reported atomic.Bool // an outage was reported, and its end was not
	mu       sync.Mutex
	waiting  int
	reasons  map[string]bool
	longest  time.Duration
}

// Begin counts an operation that waits, once until Leave. It sets waited.
func (o *Outage) Begin(waited *bool) {
	if *waited {
		return
	}
	*waited = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
}

// News reports whether a wait should be reported: its reason is new, or it is longer than any before. pause is the wait
// without its random part.
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
	o.reported.Store(true)
	return true
}

// Leave ends an operation; waited says whether it called Begin. If it succeeded as the last one of a reported outage,
// the outage is over and back is called, unless it is nil.
func (o *Outage) Leave(waited bool, err error, back func()) {
	if !waited && !o.reported.Load() {
		return
	}
	o.mu.Lock()
	if waited {
		o.waiting--
	}
	over := err == nil && o.waiting == 0 && o.reported.Swap(false)
	if over {
		o.reasons, o.longest = nil, 0
	}
	o.mu.Unlock()
	if over && back != nil {
		back()
	}
}

// Retryable reports whether another attempt may succeed: err wraps ErrTemporary and none of the final errors.
func Retryable(err error, final ...error) bool {
	for _, f := range append(final, ErrNotExist, ErrShort, ErrDenied, ErrNoSpace, ErrName) {
		if errors.Is(err, f) {
			return false
		}
	}
	return errors.Is(err, ErrTemporary)
}

// Sleep waits for d, or returns the cause of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
