package iopolicy

import "time"

// Gapper is what a Watcher may be in addition, if it sees others only while nothing of our own is on the device.
type Gapper interface {
	// NeedsGaps returns how often, and for how long, operations that can wait should be held back at full speed, so that
	// there is something to see; zeros: not needed now. It is asked after each Look.
	NeedsGaps() (every, length time.Duration)
}

// hush is a gap made on purpose: no operation that can wait begins, and once those under way have ended, nothing of ours
// is on the device for a while. The watcher looks when it begins, in the middle and at the end: what was on its way when it
// began may be there in the first half, and not in the second. Where somebody sleeps there are gaps enough.
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
	switch every, length := h.gapper.NeedsGaps(); {
	case g.sleepers > 0 || every <= 0 || length <= 0:
		h.last = now
	case now-h.last >= int64(every):
		h.on, h.since, h.length = true, never, int64(length)
		g.alert.Add(1)
		g.settleDown(now)
	}
}

// settleDown lets the gap of a hush begin when nothing of ours is on the device any more, and calls the hush off when
// somebody is there whom it does not keep away: the device may never be left alone then, and nobody waits for that. g.mu is
// held.
func (g *Gate) settleDown(now int64) {
	switch h := &g.hush; {
	case !h.on || h.since != never:
	case g.still():
		h.since = now
		g.look(now)
		h.timer = time.AfterFunc(time.Duration(h.length/2), g.listen)
	case g.lanes[0].flying()+g.lanes[passive].flying() > 0:
		g.endHush(now, g.resting.Load())
	}
}

// listen looks in the middle of a hush, and at its end lets go who has come meanwhile.
func (g *Gate) listen() {
	idle := g.idle()
	g.mu.Lock()
	defer g.mu.Unlock()
	if h, now := &g.hush, g.now(); h.on && h.since != never {
		g.look(now)
		if rest := h.since + h.length - now; rest > 0 {
			h.timer.Reset(time.Duration(rest))
		} else {
			g.endHush(now, idle)
		}
	}
}

// endHush lets go who has come during a hush. g.mu is held.
func (g *Gate) endHush(now int64, idle bool) {
	g.hush.on, g.hush.last = false, now
	g.alert.Add(-1)
	if !g.shut {
		g.release(idle)
	}
}
