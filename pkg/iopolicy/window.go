package iopolicy

import "time"

// never is before all other moments, and far enough from the limits of int64 to calculate with.
const never = int64(-1) << 61

// now returns the time since the gate was made, by a clock that only goes forward.
func (g *Gate) now() int64 { return int64(time.Since(g.epoch)) }

func (g *Gate) time(at int64) time.Time { return g.epoch.Add(time.Duration(at)) }

// open reports whether a window of a better tier is open for tier t. It takes no lock.
func (g *Gate) open(t Tier, now int64) bool {
	if !g.cfg.Settings.Enabled {
		return false
	}
	if now-g.above[t].Load() < int64(g.cfg.Settings.Window[t]) {
		return true
	}
	for by := range t {
		if g.lanes[by].flying() > 0 {
			return true
		}
	}
	return false
}

// decide returns the state of an operation of tier t. g.mu is held.
func (g *Gate) decide(t Tier, op Op, now int64) State {
	if !g.open(t, now) {
		return Disengaged
	}
	for by := range t {
		g.note(by, now, g.edge[by].Load()+int64(g.cfg.Settings.Window[t]))
	}
	if g.slot.spent || g.budgeted() && g.full(op) {
		return Waiting
	}
	if g.ledger != nil && now-g.slot.claimed >= int64(g.span(t)) {
		if free, _ := g.ledger.Free(t, g.time(now), time.Duration(g.span(t))); !free {
			return Waiting
		}
	}
	return Engaged
}

// openWindow records that I/O of tier t was on the device from one moment to another. g.mu is held.
func (g *Gate) openWindow(t Tier, from, until int64) {
	g.edge[t].Store(max(g.edge[t].Load(), until))
	reach := int64(-1)
	for worse := t + 1; worse < Tiers; worse++ {
		g.above[worse].Store(max(g.above[worse].Load(), until))
		if g.lanesOf()&(1<<worse) != 0 {
			reach = max(reach, int64(g.cfg.Settings.Window[worse]))
		}
	}
	if reach >= 0 && g.cfg.Settings.Enabled {
		g.note(t, from, until+reach)
	}
}

// note counts the time in which a window is open for some client. Time before the newest window is not revisited: of
// overlapping operations, the part covered only by the older one is not counted. g.mu is held.
func (g *Gate) note(by Tier, from, until int64) {
	from = max(from, 0) // before the gate existed
	if until <= max(g.count.openUntil, from) {
		return
	}
	if from > g.count.openUntil {
		g.count.windows[by]++
		g.count.openUntil = from
	}
	g.count.engaged += until - g.count.openUntil
	g.count.openUntil = until
}

// charge charges an I/O of tier t to the moment of its issue. g.mu is held.
func (g *Gate) charge(t Tier, issued int64, m mark) {
	g.count.charged++
	g.slot.lastIO[t] = max(g.slot.lastIO[t], issued)
	if g.ledger != nil {
		g.ledger.Charge(t, g.time(issued))
	}
	if m.issued(g.period.Load()) {
		g.slot.spent = true
		g.slot.at = never
	}
}
