package shared

import (
	"fmt"
	"sync/atomic"
	"time"
)

// slack is how far in the future a time may be and still count: the difference of clocks and pairings.
const slack = int64(time.Millisecond)

// Clock reads both clocks at one moment: that of package time, and nanoseconds since boot.
type Clock func() (time.Time, int64)

// clock converts between the two.
type clock struct {
	read    Clock // nil: time.Now
	base    time.Time
	mono    int64        // at base
	horizon atomic.Int64 // times up to here are known not to lie in the future
}

func (c *clock) start(read Clock) error {
	if c.read = read; read == nil {
		if _, err := monotonic(); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		read = pair
	}
	c.base, c.mono = read()
	return nil
}

// pair reads the clocks between two readings of one, and again if something came between.
func pair() (time.Time, int64) {
	var base time.Time
	var mono int64
	best := time.Duration(1<<63 - 1)
	for range 8 {
		before := time.Now()
		m, err := monotonic()
		took := time.Since(before)
		if err == nil && took < best {
			base, mono, best = before.Add(took/2), m, took
		}
	}
	return base, mono
}

// of returns the nanoseconds of a time, which must be one of time.Now (with a monotonic reading) or of the caller's
// clock.
func (c *clock) of(at time.Time) int64 { return c.mono + int64(at.Sub(c.base)) }

// time is the inverse of of.
func (c *clock) time(ns int64) time.Time { return c.base.Add(time.Duration(ns - c.mono)) }

// now returns the present nanoseconds.
func (c *clock) now() int64 {
	if c.read != nil {
		at, _ := c.read()
		return c.of(at)
	}
	return c.of(time.Now())
}

// past reports whether ns is a time since boot and not in the future. It reads the clock at most once a millisecond.
func (c *clock) past(ns int64) bool {
	if ns <= 0 {
		return false
	}
	if ns <= c.horizon.Load() {
		return true
	}
	h := c.now() + slack
	raise(&c.horizon, h)
	return ns <= h
}

// raise makes w at least v.
func raise(w *atomic.Int64, v int64) {
	for old := w.Load(); old < v && !w.CompareAndSwap(old, v); old = w.Load() {
	}
}
