package pressure

import (
	"slices"
	"time"
)

const (
	// window is how many operations are judged together. Measured on SMB: of windows of 100 and more the 90th
	// percentile tells a loaded server (1.3 to 1.8 times) from an idle one; of fewer, and of medians, nothing does.
	window = 128
	// memory is how many minutes the least latency is remembered: the route to the server may change.
	memory = 10
	// strained is how many times the latency of an idle server counts as somebody else's use.
	strained = 1.5
	// slowest is the least share of the full rate: the work must come to an end.
	slowest = 1.0 / 16
)

// Latency tells how much of the full rate to use at a server whose other clients cannot be seen, by the time that own
// operations take: it gives way slowly while they take longer than they did at best, and comes back slowly (after LEDBAT,
// RFC 6817). It says nothing about single events. It is not safe for concurrent use.
type Latency struct {
	times  [window]time.Duration
	n      int
	base   [memory]time.Duration // the least 90th percentile of each minute, newest first
	minute time.Time
	share  float64 // 0: still 1
}

// Observe books an operation of the usual size that took so long and ended at a moment.
func (l *Latency) Observe(at time.Time, took time.Duration) {
	l.times[l.n] = took
	l.n++
	if l.n < window {
		return
	}
	l.n = 0
	times := l.times
	slices.Sort(times[:])
	l.judge(at, times[window*9/10])
}

// judge moves the share by what is between the latency now and what is bearable.
func (l *Latency) judge(at time.Time, now time.Duration) {
	if l.minute.IsZero() {
		l.minute = at
	}
	for shift := 0; at.Sub(l.minute) >= time.Minute && shift < memory; shift++ {
		copy(l.base[1:], l.base[:memory-1])
		l.base[0] = 0
		l.minute = l.minute.Add(time.Minute)
	}
	if at.Sub(l.minute) >= time.Minute { // nothing for longer than is remembered
		l.minute = at
	}
	if l.base[0] == 0 || now < l.base[0] {
		l.base[0] = now
	}
	least := now
	for _, b := range l.base {
		if b > 0 {
			least = min(least, b)
		}
	}
	bearable := float64(least) * strained
	off := max(-0.5, min(0.5, (bearable-float64(now))/bearable))
	l.share = min(1, max(slowest, l.Share()*(1+off)))
}

// Share returns how much of the full rate to use, above 0 to 1.
func (l *Latency) Share() float64 {
	if l.share == 0 {
		return 1
	}
	return l.share
}
