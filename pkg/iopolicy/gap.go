package iopolicy

import "time"

// GapRequester is an optional interface of a Watcher that sees others only while no own operation is in flight.
type GapRequester interface {
	// NeedsGaps returns how often and for how long operations that can wait should be held back at full speed; zeros: not
	// now. The gate calls it after each Look.
	NeedsGaps() (every, length time.Duration)
}

// forcedGap is an idle gap that the gate makes for its watcher: operations that can wait do not begin, and once those
// in flight have ended, the device is left alone. The watcher is polled at the beginning, in the middle and at the
// end: own read-ahead may show in the first half, and not in the second. While operations sleep there are natural
// gaps.
type forcedGap struct {
	requester GapRequester // nil: gaps are not needed
	on        bool
	since     int64 // when the last own operation ended; never: some are in flight
	length    int64
	last      int64 // when the last gap ended
	timer     *time.Timer
}

// maybeStartGap starts a forced gap if one is due. g.mu is held, and the watcher was just polled.
func (g *Gate) maybeStartGap(now int64) {
	h := &g.forced
	if h.requester == nil || h.on || g.shut {
		return
	}
	switch every, length := h.requester.NeedsGaps(); {
	case g.queue.sleepers > 0 || every <= 0 || length <= 0:
		h.last = now
	case now-h.last >= int64(every):
		h.on, h.since, h.length = true, never, int64(length)
		g.alert.Add(1)
		g.advanceGap(now)
	}
}

// advanceGap starts the timer of a forced gap once no own operation is in flight, and cancels the gap while tier 0 is
// in flight, which it does not hold back. g.mu is held.
func (g *Gate) advanceGap(now int64) {
	switch h := &g.forced; {
	case !h.on || h.since != never:
	case g.drained():
		h.since = now
		g.look(now)
		h.timer = time.AfterFunc(time.Duration(h.length/2), g.onGapTimer)
	case g.lanes[0].flying()+g.lanes[passive].flying() > 0:
		g.endGap(now, g.resting.Load())
	}
}

// onGapTimer polls in the middle of a forced gap, and ends it.
func (g *Gate) onGapTimer() {
	idle := g.idle()
	g.mu.Lock()
	defer g.mu.Unlock()
	if h, now := &g.forced, g.now(); h.on && h.since != never {
		g.look(now)
		if rest := h.since + h.length - now; rest > 0 {
			h.timer.Reset(time.Duration(rest))
		} else {
			g.endGap(now, idle)
		}
	}
}

// endGap releases the operations that were held back. g.mu is held.
func (g *Gate) endGap(now int64, idle bool) {
	g.forced.on, g.forced.last = false, now
	g.alert.Add(-1)
	if !g.shut {
		g.release(idle)
	}
}
