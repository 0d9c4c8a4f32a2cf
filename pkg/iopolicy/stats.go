package iopolicy

import "time"

// Stats tells what has happened at a gate.
type Stats struct {
	Name       string
	Medium     Medium
	State      State                // for the worst tier that has used the gate
	Operations uint64               // begun; of a Series the first call, and when it has ended the others
	Charged    uint64               // of tiers that can wait, that reached the device and so used up a period's slot
	Moved      Bytes                // by all operations, as their callers told, whether they reached the device or not
	Asleep     [Tiers]time.Duration // by tier of the sleeper, summed over sleepers
	Held       time.Duration        // wall time in which somebody slept and no own operation was on the device
	Engaged    time.Duration        // wall time in which a window was open for somebody who used the gate
	Windows    [Tiers]uint64        // windows that were opened, by the tier of who opened them
}

// Stats returns what has happened at g so far. Those who sleep now count up to now; an operation that is under way has
// not yet counted for Engaged and Windows, unless it is Certain.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s := Stats{Name: g.cfg.Name, Medium: g.medium, Charged: g.charged, Windows: g.windows}
	s.Operations = g.more.Load()
	for i := range g.lanes {
		s.Operations += g.lanes[i].begun.Load()
		s.Moved.Read += g.lanes[i].read.Load()
		s.Moved.Written += g.lanes[i].written.Load()
	}
	for t := Tier(1); t < Tiers; t++ {
		asleep := g.asleep[t]
		for _, w := range g.queues[t] {
			asleep += now - w.since
		}
		s.Asleep[t] = time.Duration(asleep)
		if g.lanesOf()&(1<<t) != 0 {
			s.State = g.decide(t, now)
		}
	}
	g.weigh(now)
	s.Held = time.Duration(g.held)
	s.Engaged = time.Duration(g.engaged - max(0, g.openUntil-now))
	return s
}
