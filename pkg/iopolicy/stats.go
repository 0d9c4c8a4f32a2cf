package iopolicy

import (
	"math"
	"time"
)

// Stats is what has happened at a gate.
type Stats struct {
	Name       string
	Medium     Medium
	State      State                // for the worst tier that has used the gate
	Operations uint64               // begun; of a Series the first call, and when it has ended the others
	Syncs      uint64               // of Operations: of kind Sync
	Charged    uint64               // of tiers that can wait, that reached the device and so used up a period's slot
	Moved      Bytes                // by all operations, as their callers reported, whether they reached the device or not
	Asleep     [Tiers]time.Duration // by tier of the sleeper, summed over sleepers
	Held       time.Duration        // wall time in which an operation slept and none was in flight
	Engaged    time.Duration        // wall time in which a window was open for a client of the gate
	Windows    [Tiers]uint64        // windows opened, by tier of the I/O that opened them
	Impact                          // zero if a slot grant is one I/O
}

// Impact is what slot grants with a budget cost others.
type Impact struct {
	Max    float64       // Settings.MaxImpact, or what SetMaxImpact replaced it by
	Budget time.Duration // device time of the next slot grant of the worst tier that has used the gate
	Rate   float64       // I/Os a second of others; 0: not known
	Turns  time.Duration // device time of all slot grants so far
	Lost   time.Duration // of that, what others lost, at most
	// Harm is the part of the device time of slot grants that others lose, as the next one assumes: the calculated one, or
	// the measured bound if that is less.
	Harm       float64
	Calculated float64       // upper bound of the same by calculation
	Measured   float64       // the same by measurement: at most its upper bound (two standard errors); 0: not known now
	Inflight   time.Duration // bound on what is in flight while a window is open
}

// impact returns the cost of slot grants. g.mu is held.
func (g *Gate) impact(now int64) Impact {
	b := &g.budget
	i := Impact{Max: b.impact, Turns: time.Duration(b.total), Lost: time.Duration(b.lost)}
	if rate := b.demand.rate(now); !math.IsInf(rate, 1) {
		i.Rate = rate
	}
	i.Harm, i.Calculated, i.Inflight = g.harm(now), g.calculated(now), time.Duration(g.depth(now))
	if bound := b.trial.bound(now, b.impact, g.wait(now)); !math.IsInf(bound, 1) {
		i.Measured = bound
	}
	for t := Tier(1); t < Tiers; t++ {
		if g.lanesOf()&(1<<t) != 0 {
			i.Budget = time.Duration(g.allowance(t, now))
		}
	}
	return i
}

// Stats returns what has happened at g so far. Present sleepers count up to now; an operation in flight does not count
// for Engaged and Windows yet, unless it is Certain.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s := Stats{Name: g.cfg.Name, Medium: g.medium, Charged: g.count.charged, Windows: g.count.windows}
	s.Operations = g.more.Load()
	for i := range g.lanes {
		s.Operations += g.lanes[i].begun.Load()
		s.Syncs += g.lanes[i].sync.Load()
	}
	s.Moved = g.moved()
	for t := Tier(1); t < Tiers; t++ {
		asleep := g.count.asleep[t]
		for _, w := range g.queue.of[t] {
			asleep += now - w.since
		}
		s.Asleep[t] = time.Duration(asleep)
		if g.lanesOf()&(1<<t) != 0 {
			s.State = g.decide(t, Op{}, now)
		}
	}
	if g.budgeted() {
		s.Impact = g.impact(now)
	}
	g.accountStall(now)
	s.Held = time.Duration(g.count.held)
	s.Engaged = time.Duration(g.count.engaged - max(0, g.count.openUntil-now))
	return s
}
