package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Outage joins the failures of concurrent operations while a target is away, so that they are reported once. The zero
// value is ready, for any number of goroutines.
type Outage struct {
	reported atomic.Bool // an outage was reported, and its end was not
	mu       sync.Mutex
	waiting  int
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

// News reports whether this is the first wait of an outage.
func (o *Outage) News() bool { return !o.reported.Swap(true) }

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
	o.mu.Unlock()
	if over && back != nil {
		back()
	}
}

// Retryable reports whether another attempt may succeed: err wraps ErrTemporary and none of the final errors.
func Retryable(err error, final ...error) bool {
	final = append(final, ErrNotExist, ErrShort, ErrDenied, ErrNoSpace, ErrName)
	return errors.Is(err, ErrTemporary) && !IsAny(err, final...)
}

// IsAny reports whether err wraps one of the sentinels.
func IsAny(err error, sentinels ...error) bool {
	return slices.ContainsFunc(sentinels, func(one error) bool { return errors.Is(err, one) })
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
