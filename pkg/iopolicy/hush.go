package iopolicy

import "time"

// Gapper is what a Watcher may be in addition, if it sees others only while nothing of our own is on the device.
type Gapper interface {
	// NeedsGaps returns how often, and for how long, operations that can wait should be held back at full speed, so that
	// there is something to see; zeros: not needed now. It is asked after each Look.
	NeedsGaps() (every, length time.Duration)
}

// hush is a gap made on purpose: no operation that can wait begins, and once those under way have ended, nothing of ours
// is on the device for a while. Where somebody sleeps there are gaps enough.
type hush struct {
	gapper Gapper // nil: gaps are not needed
	on     bool
	since  int64 // when the device was left alone; never: operations are still under way
	length int64
	last   int64 // when the last gap ended
	timer  *time.Timer
}

// quieten begins a hush if it is time for one. g.mu is held, and the watcher has just looked.
func (g *Gate) quieten(now int64) {
	h := &g.hush
	if h.gapper == nil || h.on || g.shut {
		return
	}
	every, length := h.gapper.NeedsGaps()
	if g.sleepers > 0 || every <= 0 || length <= 0 {
		h.last = now
		return
	}
	if now-h.last < int64(every) {
		return
	}
	h.on, h.since, h.length = true, never, int64(length)
	g.alert.Add(1)
	g.settleDown(now)
}

// settleDown lets the gap of a hush begin when nothing of ours is on the device any more. g.mu is held.
func (g *Gate) settleDown(now int64) {
	h := &g.hush
	if !h.on || h.since != never || !g.still() {
		return
	}
	h.since = now
	g.look(now)
	if h.timer == nil {
		h.timer = time.AfterFunc(time.Duration(h.length), g.unhush)
	} else {
		h.timer.Reset(time.Duration(h.length))
	}
}

// unhush ends a hush: it looks, and lets go who has come meanwhile.
func (g *Gate) unhush() {
	idle := g.idle()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.hush.on {
		return
	}
	now := g.now()
	g.look(now)
	g.hush.on, g.hush.last = false, now
	g.alert.Add(-1)
	if !g.shut {
		g.release(idle)
	}
}
