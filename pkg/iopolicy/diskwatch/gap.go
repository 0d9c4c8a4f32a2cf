package diskwatch

import "time"

// drained is after how many poll intervals without an own operation the device is no longer busy with own I/O: 100 ms
// on solid state, 400 ms on a rotational disk. Read-ahead is usually complete within one interval.
const drained = 20

// gapState tracks the present idle gap, in which no own operation is in flight. What the device does in it is foreign
// once own read-ahead has arrived: when a poll finds the device idle, or after limit, since a busy device may never be
// idle.
type gapState struct {
	limit time.Duration // after which nothing of our own is in flight

	since time.Time     // the gap began, at the latest
	calm  bool          // nothing of our own is in flight any more
	late  bool          // calm follows from limit alone: the device has not been idle
	busy  time.Duration // the longest gap in which the device was busy, since it was last idle
	taken bool          // foreign I/O filled a whole gap, and the device has not been idle since
}

// begin starts a new gap: an own operation was in flight since the last poll.
func (p *gapState) begin(now time.Time) { p.since, p.calm, p.late = now, false, false }

// update takes the result of a poll. asked: this process may have submitted I/O outside the gate. gapsOnly: only gaps
// show foreign I/O.
func (p *gapState) update(g, last *sample, gap, asked, gapsOnly bool) {
	if asked {
		p.begin(g.At)
	}
	switch {
	case g.Inflight > 0:
	case g.dev.Inflight == 0:
		p.calm, p.late, p.busy, p.taken = true, false, 0, false
	case !gapsOnly:
		p.busy, p.taken = 0, false
	case gap && !p.calm && !asked:
		p.busy = max(p.busy, g.At.Sub(p.since))
		if g.At.Sub(p.since) >= p.limit && g.dev.Read > last.dev.Read { // a stalled device serves nothing
			p.calm, p.late, p.taken = true, true, true
		}
	case !gap || !asked:
		// Own operations are small inside a window, and cause no read-ahead.
		p.calm = p.calm || p.taken
	}
}

// length returns the length of a forced gap: twice the longest busy one, up to twice limit plus base.
func (p *gapState) length(base time.Duration) time.Duration {
	return max(base, min(2*p.busy, 2*p.limit+base))
}
