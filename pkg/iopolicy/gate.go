package iopolicy

import (
	"sync"
	"sync/atomic"
	"time"
)

// Config is what a gate is made of.
type Config struct {
	Name     string // of the device, for reports: "sda", "//nas/share"
	Medium   Medium
	Settings Settings
	Watcher  Watcher // sees I/O of others; nil: only this gate and Peers count. It may implement GapRequester
	Peers    Peers   // gates of other processes; nil: none. They may implement SlotLedger
	// Idle: the user is away, so tier 3 counts as tier 2; nil: not known. It is called before each operation of tier 3,
	// must be quick, and must not call the gate.
	Idle func() bool
	Metering
}

// Metering is how the gate determines what operations moved at the device.
type Metering struct {
	Meter Meter // nil: whether an operation reached the device follows from its duration and kind, see Grant.End
	// Attribute: every operation is metered, not only those inside a window, because the process uses other devices too
	// and a Watcher must know which bytes were for this one.
	Attribute bool
	// Submitted counts the bytes that metered operations that have ended submitted to the device. Nil: the gate has a
	// counter of its own.
	Submitted *Counter
}

// Counter counts bytes. It is safe for concurrent use and takes no lock.
type Counter struct{ read, written atomic.Uint64 }

func (c *Counter) add(b Bytes) {
	c.read.Add(b.Read)
	c.written.Add(b.Written)
}

// Bytes returns the count.
func (c *Counter) Bytes() Bytes { return Bytes{c.read.Load(), c.written.Load()} }

// Gate admits or delays the I/O of one device.
//
// The fast path takes no lock: it counts the operation in its lane and then reads alert, which is raised while every
// operation must take mu (a gate that is shut, sleepers, a poll). Everything else happens under mu.
type Gate struct {
	cfg    Config
	epoch  time.Time
	slow   bool       // every operation needs more than counting
	ledger SlotLedger // cfg.Peers, if they implement it
	ways   sync.Pool  // of *way, for metered operations

	alert     atomic.Int64  // number of reasons to take mu before an operation begins
	waiting   atomic.Uint32 // bits of the tiers above 0 that clients of this gate have, or had
	nextLook  atomic.Int64
	resting   atomic.Bool         // Idle at the last call
	period    atomic.Uint64       // number of the present I/O period
	edge      [Tiers]atomic.Int64 // when I/O of each tier last began or ended on the device
	above     [Tiers]atomic.Int64 // the newest edge of all better tiers
	_         [64]byte            // keeps seldom and often written words on different cache lines
	lanes     [Tiers + 1]lane
	submitted *Counter      // cfg.Submitted, or an own one
	more      atomic.Uint64 // calls of a Series beyond the first of each operation
	small     atomic.Int64  // operations in flight that began inside windows

	mu     sync.Mutex
	medium Medium
	shut   bool
	forced forcedGap
	looked int64  // when the watcher was last polled
	gap    uint64 // 1 + operations begun by then, if none was in flight; else 0
	budget budget
	slot   slot
	queue  queue
	count  count

	clients [Tiers]int // by tier
	present uint32     // bits of the tiers above 0 that clients have now
}

// slot is the present slot, and when there may be another.
type slot struct {
	spent       bool         // an I/O was charged to the present period, or the budget is used up
	next        Tier         // the tier that gets the next one
	floor       int64        // there is none before
	lastIO      [Tiers]int64 // when a charged I/O of each tier was issued last
	periodStart [Tiers]int64 // of each tier: its next slot is a period later
	retry       [Tiers]int64 // peers have the slot until then
	at          int64        // when the present one was granted or passed on; never: it is used up
	holder      Tier         // the tier that has it
	claimed     int64        // when the last one was reserved from the peers, for a period
}

// queue is the operations that wait.
type queue struct {
	closed   []*waiter        // arrived while the gate was shut or in a forced gap
	of       [Tiers][]*waiter // of each tier, in order of arrival
	sleepers int              // in all of those
	timer    *time.Timer      // of the next slot
	armed    int64            // when it fires; never: it is stopped
}

// count is what Stats reports.
type count struct {
	charged   uint64
	windows   [Tiers]uint64
	engaged   int64 // up to openUntil
	openUntil int64
	asleep    [Tiers]int64 // of operations that have slept
	held      int64        // up to heldSince
	heldSince int64        // never: no stall now
}

// lane counts the operations of one tier; passive operations have one of their own. begun is incremented before the
// admission check and decremented again if the operation must wait, so a concurrent observer never misses one.
type lane struct {
	begun, ended  atomic.Uint64
	read, written atomic.Uint64
	wrote, flush  atomic.Uint64 // of begun and ended: writes and syncs
	sync, settled atomic.Uint64 // of wrote and flush: syncs
}

// flying returns how many operations are in flight: no less than at any moment of the call.
func (l *lane) flying() int {
	ended := l.ended.Load()
	return int(l.begun.Load() - ended)
}

// write adds to the operations begun that write, if one of a kind does.
func (l *lane) write(kind Kind, by uint64) {
	if !kind.writes() {
		return
	}
	l.wrote.Add(by)
	if kind == Sync {
		l.sync.Add(by)
	}
}

// passive is the lane of operations that open no window.
const passive = Tier(Tiers)

// lane returns where operations of a policy are counted: at their tier, or with the passive ones.
func (p Policy) lane() Tier {
	if p == Passive {
		return passive
	}
	return p.Tier()
}

// waits reports whether operations of lane t may have to wait.
func waits(t Tier) bool { return t-1 < Tiers-1 }

// New makes a gate.
func New(cfg Config) *Gate {
	g := &Gate{
		cfg: cfg, epoch: time.Now(), slow: cfg.Peers != nil || cfg.Attribute && cfg.Meter != nil, medium: cfg.Medium,
		looked: never, queue: queue{armed: never}, count: count{openUntil: never, heldSince: never},
		slot: slot{next: Tiers - 1, floor: never, claimed: never, at: never},
	}
	g.ledger, _ = cfg.Peers.(SlotLedger)
	if g.submitted = cfg.Submitted; g.submitted == nil {
		g.submitted = &Counter{}
	}
	g.budget.impact, g.budget.spentAt, g.budget.demand.at = cfg.Settings.MaxImpact, never, never
	g.budget.trial.forget()
	g.noteDemand(0, Sighting{})
	g.forced.requester, _ = cfg.Watcher.(GapRequester)
	for t := range Tiers {
		g.edge[t].Store(never)
		g.above[t].Store(never)
		g.slot.lastIO[t], g.slot.periodStart[t], g.slot.retry[t] = never, never, never
	}
	if !cfg.Settings.Enabled || cfg.Watcher == nil && cfg.Peers == nil {
		g.nextLook.Store(-never)
	}
	return g
}

// Name returns the name of the device.
func (g *Gate) Name() string { return g.cfg.Name }

// Pass returns c's pass through g. A nil *Gate gives a nil *Pass, which admits everything at once.
//
// The gate records the I/O of better tiers only once a client that may have to wait has a pass, so passes are made
// before the I/O begins.
func (g *Gate) Pass(c *Client) *Pass {
	if g == nil {
		return nil
	}
	c.join(g)
	return &Pass{g, c, opState{gate: g}}
}

// admit changes the number of clients with policy p.
func (g *Gate) admit(p Policy, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clients[p.Tier()] += by
	bits := uint32(0)
	for t := Tier(1); t < Tiers; t++ {
		if g.clients[t] > 0 {
			bits |= 1 << t
		}
	}
	g.present = bits
	if throttle := Throttle.Tier(); bits&(1<<throttle) != 0 && g.cfg.Idle != nil {
		bits |= 1 << (throttle - 1)
	}
	g.waiting.Or(bits)
}

// lanesOf returns the bits of the lanes that clients with waiting tiers use now. g.mu is held.
func (g *Gate) lanesOf() uint32 {
	throttle := Throttle.Tier()
	if g.present&(1<<throttle) != 0 && g.resting.Load() {
		return g.present&^(1<<throttle) | 1<<(throttle-1)
	}
	return g.present
}

// Shut holds back all operations, whatever their policy, until Open.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return
	}
	g.shut = true
	g.alert.Add(1)
	g.arm(g.now())
}

// Open undoes Shut. Waiting operations are re-evaluated in order of arrival.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return
	}
	g.shut = false
	g.alert.Add(-1)
	g.release(g.idle())
}

// release re-evaluates operations that arrived while the gate was shut or in a forced gap. g.mu is held.
func (g *Gate) release(idle bool) {
	came := g.queue.closed
	g.queue.closed = nil
	now := g.now()
	for _, w := range came {
		w.lane = effective(w.pass.client.Policy(), idle)
		g.place(w, now, last)
	}
	g.settle()
}

// SetMedium changes the column of periods, when the medium has turned out to be another.
func (g *Gate) SetMedium(m Medium) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.medium = m
	g.budget.trial.forget()
	g.adaptPiece(g.now())
	g.settle()
}

// moved returns the bytes of all operations that have ended, as their callers reported. It takes no lock.
func (g *Gate) moved() (b Bytes) {
	for i := range g.lanes {
		b.Read += g.lanes[i].read.Load()
		b.Written += g.lanes[i].written.Load()
	}
	return b
}

// span returns the period of tier t on this medium. g.mu is held.
func (g *Gate) span(t Tier) int64 {
	if g.medium == SSD {
		return int64(g.cfg.Settings.PeriodSSD[t])
	}
	return int64(g.cfg.Settings.PeriodHDD[t])
}

// idle reports whether the user is away.
func (g *Gate) idle() bool {
	if g.cfg.Idle == nil {
		return false
	}
	idle := g.cfg.Idle()
	if idle != g.resting.Load() {
		g.resting.Store(idle)
	}
	return idle
}

// effective returns the lane of a policy while the user is away, or not.
func effective(p Policy, idle bool) Tier {
	if p == Throttle && idle {
		return Utility.Tier()
	}
	return p.lane()
}

// operations returns how many own operations have begun and how many are in flight. It takes no lock. If none is in
// flight and none has begun by the next call, none was in flight in between.
func (g *Gate) operations() (begun uint64, flying int) {
	ended := uint64(0)
	for i := range g.lanes {
		ended += g.lanes[i].ended.Load()
	}
	for i := range g.lanes {
		begun += g.lanes[i].begun.Load()
	}
	return begun, int(begun - ended)
}

// drained reports whether no own operation is in flight.
func (g *Gate) drained() bool {
	_, flying := g.operations()
	return flying == 0
}
