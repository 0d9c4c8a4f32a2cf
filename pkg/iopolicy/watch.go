package iopolicy

import (
	"math"
	"time"
)

// Watcher detects foreign I/O on one device. The gate calls it at the boundaries of its own operations, one call at a
// time and, outside gaps, no more often than Interval. A gap is time in which no own operation is in flight and an
// operation waits for a slot; Look is called when it begins and before a slot is granted. No own operation begins
// during a call, so Look must be quick (reading a counter). The gate is locked during a call, and a call of the gate
// from Look never returns: what a Watcher needs to know of own I/O is in the Moment.
type Watcher interface {
	Look(m Moment) Sighting
	Interval() time.Duration
}

// Moment is the gate's own I/O at a poll.
type Moment struct {
	At       time.Time
	Inflight int // own operations on the device now
	// own operations begun so far; with Inflight 0 at two moments and Begun equal, the time between is a gap
	Begun   uint64
	Writing int    // of Inflight: writes and syncs
	Wrote   uint64 // own writes and syncs begun so far
	Syncing int    // of Writing: syncs
	Synced  uint64 // own syncs begun so far
	// Moved counts bytes of operations that have ended, as their callers reported, whether they reached the device or not.
	Moved Bytes
	// Own counts bytes of metered operations that have ended, which are proven to be for this device.
	Own Bytes
}

// Sighting is what a Watcher saw since its last poll.
type Sighting struct {
	// Newest is when foreign I/O of each tier was last seen; zero: none seen.
	Newest [Tiers]time.Time
	// Inflight: foreign I/O of that tier is on the device now.
	Inflight [Tiers]bool
	// Gap is the time since the last poll if no own operation was in flight in it and foreign I/Os could be counted; else
	// 0. IOs is their number, Writes how many of them are writes, and Waited how long they took together; 0: not known.
	Gap    time.Duration
	IOs    uint64
	Writes uint64
	Waited time.Duration
	// Others is how many bytes others have moved since any one moment. Counted: it is exact now, since no own operation is
	// in flight, and cooperating processes use the device no more than others.
	Others  Bytes
	Counted bool
	// Served is what the device has done since any one moment, own I/O too.
	Served Served
}

// Served is a number of I/Os that have ended, and how long the device took for them together.
type Served struct {
	IOs  uint64
	Took time.Duration
}

// since returns what was done since an earlier moment.
func (s Served) since(t Served) Served { return Served{s.IOs - t.IOs, s.Took - t.Took} }

// Meter returns how many bytes the calling thread has submitted to devices so far. The gate locks the goroutine to its
// thread around a metered operation.
type Meter interface {
	Submitted() Bytes
}

// Peers is state about one device that processes on a machine share; see package shared. Implementations survive peers
// that die or publish false values. They are quick, safe for concurrent use, and do not call the gate. They may
// implement SlotLedger too.
type Peers interface {
	// Publish publishes that own I/O of a tier began or ended at a moment.
	Publish(t Tier, at time.Time)
	// Enter and Leave publish that own I/O of a tier is in flight.
	Enter(t Tier)
	Leave(t Tier)
	// Seen returns when the peers' I/O of each tier was last in flight, and whether some is now.
	Seen() Sighting
	// Claim reserves the slot that opens at now for an I/O of tier t, where slots are period apart: at most one process
	// gets it. Otherwise next is when to try again.
	Claim(t Tier, now time.Time, period time.Duration) (ok bool, next time.Time)
}

// SlotLedger is an optional interface of Peers. It records slots that were used without Claim: by the first I/O in a
// window, and by one that turned out later to reach the device.
type SlotLedger interface {
	// Free returns what Claim would, and reserves nothing.
	Free(t Tier, now time.Time, period time.Duration) (ok bool, next time.Time)
	// Charge records that an I/O of tier t issued at a moment has used a slot.
	Charge(t Tier, at time.Time)
}

// peerMaxAge is the age at which what peers have published is read again while no window is open.
const peerMaxAge = time.Millisecond

// boundary polls others' I/O, unless the gate is busy.
func (g *Gate) boundary() {
	if g.mu.TryLock() {
		g.poll()
		g.mu.Unlock()
	}
}

// bracket polls others' I/O before and after a Sync, regardless of the interval: writes of the device during the Sync
// carry no information, and must not mix with earlier ones.
func (g *Gate) bracket() {
	if g.cfg.Watcher == nil || !g.cfg.Settings.Enabled {
		return
	}
	g.mu.Lock()
	g.look(g.now())
	g.mu.Unlock()
}

// poll polls peers and the watcher, as far as their intervals allow. g.mu is held.
func (g *Gate) poll() {
	if !g.cfg.Settings.Enabled {
		return
	}
	now := g.now()
	next := int64(math.MaxInt64)
	if p := g.cfg.Peers; p != nil {
		g.observe(p.Seen())
		next = now + int64(peerMaxAge)
	}
	if w := g.cfg.Watcher; w != nil {
		gap := g.queue.sleepers > 0 && g.drained()
		if gap || now-g.looked >= int64(w.Interval()) {
			g.look(now)
			g.maybeStartGap(now)
		}
		next = min(next, g.looked+int64(w.Interval()))
	}
	g.nextLook.Store(next)
}

// look polls the watcher. g.mu is held.
func (g *Gate) look(now int64) {
	// Raised before the counters are read: an operation that is not in them has not begun, and waits for g.mu.
	g.alert.Add(1)
	m := g.moment(now)
	s := g.cfg.Watcher.Look(m)
	g.observe(s)
	g.noteDemand(now, s)
	g.alert.Add(-1)
	g.looked, g.gap = now, 0
	if m.Inflight == 0 {
		g.gap = m.Begun + 1
	}
}

// moment reads the counters: bytes last, so that they include all operations that have ended.
func (g *Gate) moment(now int64) Moment {
	m := Moment{At: g.time(now)}
	m.Begun, m.Inflight = g.operations()
	for i := range g.lanes {
		l := &g.lanes[i]
		flushed, settled := l.flush.Load(), l.settled.Load()
		wrote, synced := l.wrote.Load(), l.sync.Load()
		m.Wrote += wrote
		m.Writing += int(wrote - flushed)
		m.Synced += synced
		m.Syncing += int(synced - settled)
	}
	m.Moved, m.Own = g.moved(), g.submitted.Bytes()
	return m
}

// observe opens the windows of a sighting. A time in the future counts as the present: clocks of other processes must
// not delay an operation for ever. g.mu is held.
func (g *Gate) observe(s Sighting) {
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
			g.openWindow(t, at, at)
		}
	}
}
