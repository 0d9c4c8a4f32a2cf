package iopolicy

import (
	"math"
	"time"
)

// Watcher sees foreign I/O on one device. The gate calls it at the boundaries of its own operations, one call at a time
// and, outside gaps, no more often than Interval. A gap is time in which no own operation is on the device and somebody
// waits for a turn; it is looked at when it begins and when a waiter's turn comes. No own operation begins during a call,
// so a Look must be quick (reading a counter), and it must not call the gate.
type Watcher interface {
	Look(m Moment) Sighting
	Interval() time.Duration
}

// Moment is what the gate knows of its own I/O when it asks a Watcher.
type Moment struct {
	At       time.Time
	Inflight int    // own operations on the device now
	Begun    uint64 // own operations begun so far; with Inflight 0 at two moments and Begun equal, the time between is a gap
	Writing  int    // of Inflight: writes and syncs
	Wrote    uint64 // own writes and syncs begun so far
	// Own counts bytes that were proven to be this gate's: those of metered operations that have ended. All bytes of
	// this process that no gate has claimed are told by nobody.
	Own Bytes
}

// Sighting is what a Watcher saw since its last look.
type Sighting struct {
	// Newest is when foreign I/O of each tier was last seen; zero: none seen.
	Newest [Tiers]time.Time
	// Inflight: foreign I/O of that tier is on the device at this moment.
	Inflight [Tiers]bool
}

// Meter tells how many bytes the calling thread has had submitted to devices so far. The gate locks the goroutine to its
// thread around a metered operation.
type Meter interface {
	Submitted() Bytes
}

// Peers is state that processes on one machine share about one device. Implementations are safe against peers that die
// or lie; see package shared. They are quick, safe for concurrent use, and do not call the gate.
type Peers interface {
	// Publish tells the peers of own I/O of a tier that began or ended at a moment.
	Publish(t Tier, at time.Time)
	// Enter and Leave tell that own I/O of a tier is on the device.
	Enter(t Tier)
	Leave(t Tier)
	// Seen returns when the peers' I/O of each tier was last at the device, and whether some is there now.
	Seen() Sighting
	// Claim asks for the slot that opens at now for an I/O of tier t, where slots are period apart: at most one process
	// gets it. Otherwise next is when to ask again.
	Claim(t Tier, now time.Time, period time.Duration) (ok bool, next time.Time)
}

// Ledger is what Peers may keep in addition: who used up a slot without having asked for it, as the first I/O in a window
// does and one that turned out to reach the device later.
type Ledger interface {
	// Free tells what Claim would, and takes nothing.
	Free(t Tier, now time.Time, period time.Duration) (ok bool, next time.Time)
	// Charge tells that an I/O of tier t which was issued at a moment has used up a slot.
	Charge(t Tier, at time.Time)
}

// hearsay is how old the word of peers may grow while no window is open. Their windows are counted in milliseconds.
const hearsay = time.Millisecond

// boundary looks at others' I/O, unless somebody else is busy with the gate.
func (g *Gate) boundary() {
	if g.mu.TryLock() {
		g.glance()
		g.mu.Unlock()
	}
}

// bracket looks at others' I/O before and after a Sync, however short ago that was last done: what the device writes in
// between tells nothing, and what it wrote before must not be mixed with it.
func (g *Gate) bracket() {
	if g.cfg.Watcher == nil || !g.cfg.Settings.Enabled {
		return
	}
	g.mu.Lock()
	g.look(g.now())
	g.mu.Unlock()
}

// glance takes in what peers and the watcher have seen, as far as they may be asked now. g.mu is held.
func (g *Gate) glance() {
	if !g.cfg.Settings.Enabled {
		return
	}
	now := g.now()
	next := int64(math.MaxInt64)
	if p := g.cfg.Peers; p != nil {
		g.believe(p.Seen())
		next = now + int64(hearsay)
	}
	if w := g.cfg.Watcher; w != nil {
		gap := g.sleepers > 0 && g.still()
		if gap || now-g.looked >= int64(w.Interval()) {
			g.look(now)
			g.quieten(now)
		}
		next = min(next, g.looked+int64(w.Interval()))
	}
	g.nextLook.Store(next)
}

// look asks the watcher. g.mu is held.
func (g *Gate) look(now int64) {
	// Raised before the counters are read: an operation that is not in them has not begun, and waits for g.mu.
	g.alert.Add(1)
	m := g.moment(now)
	g.believe(g.cfg.Watcher.Look(m))
	g.alert.Add(-1)
	g.looked, g.gap = now, 0
	if m.Inflight == 0 {
		g.gap = m.Begun + 1
	}
}

// moment reads the counters: bytes last, so that what has ended is among them.
func (g *Gate) moment(now int64) Moment {
	m := Moment{At: g.time(now)}
	m.Begun, m.Inflight = g.census()
	for i := range g.lanes {
		flushed := g.lanes[i].flush.Load()
		wrote := g.lanes[i].wrote.Load()
		m.Wrote += wrote
		m.Writing += int(wrote - flushed)
	}
	m.Own = Bytes{g.ownRead.Load(), g.ownWritten.Load()}
	return m
}

// believe opens the windows of a sighting. A time that is still to come counts as the present: clocks of others must not
// hold anybody back for ever. g.mu is held.
func (g *Gate) believe(s Sighting) {
	now := g.now()
	for t := range Tier(Tiers) {
		at := never
		if !s.Newest[t].IsZero() {
			at = min(int64(s.Newest[t].Sub(g.epoch)), now)
		}
		if s.Inflight[t] {
			at = now
		}
		if at > g.edge[t].Load() {
			g.stamp(t, at, at)
		}
	}
}
