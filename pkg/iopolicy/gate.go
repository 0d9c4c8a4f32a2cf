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
	Watcher  Watcher // sees others' I/O; nil: only what passes this gate or is told by Peers counts
	Peers    Peers   // other processes with gates for the same device; nil: none
	// Idle: nobody is using the machine, so tier 3 counts as tier 2; nil: not known, so never. It is asked before each
	// operation of tier 3, so it is quick, and does not call the gate.
	Idle func() bool
	Metering
}

// Metering is how it is found out what operations moved at the device, and who is told.
type Metering struct {
	Meter Meter // tells what reached the device; nil: the clock and the kind of operation do, see Grant.End
	// Attribute: every operation is metered, not only those inside a window, because the process uses other devices
	// too and a Watcher must know which bytes were for this one.
	Attribute bool
	// Observe is told of operations that were metered and have reached the device: what they were, how long they took, and
	// what they moved. Those that were several calls are left out: how long one takes, they do not tell. It is quick, and does
	// not call the gate but for SetMedium and Sample. Nil: nobody wants to know.
	Observe func(op Kind, took time.Duration, reached Bytes)
}

// Gate admits or delays the I/O of one device.
//
// What is admitted at full speed takes no lock: it announces itself in its lane and then looks at alert, which is raised
// by whoever needs to see every operation (a gate that is shut, sleepers, a look at others' I/O). Everything else happens
// under mu.
type Gate struct {
	cfg     Config
	epoch   time.Time
	escorts bool      // every operation needs more than counting
	ledger  Ledger    // cfg.Peers, if they keep one
	ways    sync.Pool // of *way, for metered operations

	alert               atomic.Int64  // how many reasons there are to take mu before an operation begins
	waiting             atomic.Uint32 // bits of the tiers above 0 that clients of this gate have, or had
	nextLook            atomic.Int64
	resting             atomic.Bool         // nobody used the machine when it was asked last
	sample              atomic.Uint64       // of so many operations one is metered; 0: none for that
	period              atomic.Uint64       // number of the present I/O period
	edge                [Tiers]atomic.Int64 // when I/O of each tier last began or ended on the device
	above               [Tiers]atomic.Int64 // the newest edge of all better tiers
	_                   [64]byte            // what changes seldom shares no cache line with what changes always
	lanes               [Tiers + 1]lane
	ownRead, ownWritten atomic.Uint64
	more                atomic.Uint64 // calls of a Series that began as one with another
	small               atomic.Int64  // operations inside windows that are under way

	mu     sync.Mutex
	medium Medium
	shut   bool
	closed []*waiter // who came while the gate was shut or hushed
	hush   hush
	looked int64  // when the watcher was last asked
	gap    uint64 // 1 + how many operations had begun then, if none was on the device

	spent       bool             // an I/O was charged to the present period
	turn        Tier             // whose turn comes next
	floor       int64            // no turn comes before
	lastIO      [Tiers]int64     // when a charged I/O of each tier was issued last
	periodStart [Tiers]int64     // of each tier: its next turn is a period later
	retry       [Tiers]int64     // peers have the slot until then
	relayed     int64            // when the present turn was given or passed on; never: it is used up
	relayTier   Tier             // whose turn it is
	claimed     int64            // when the peers granted the last slot: it is ours for a period
	queues      [Tiers][]*waiter // first come, first served
	sleepers    int              // in all queues
	timer       *time.Timer      // of the next turn
	armed       int64            // when it fires; never: it is stopped

	clients   [Tiers]int // by tier
	present   uint32     // bits of the tiers above 0 that clients have now
	charged   uint64
	windows   [Tiers]uint64
	engaged   int64 // up to openUntil
	openUntil int64
	asleep    [Tiers]int64 // of sleepers that have woken
	held      int64        // up to heldSince
	heldSince int64        // never: nobody is held up just now
}

// lane is the traffic of one tier; passive operations have one of their own. An operation is told to begun before it
// looks whether it may go, and taken back if not.
type lane struct {
	begun, ended  atomic.Uint64
	read, written atomic.Uint64
	wrote, flush  atomic.Uint64 // of begun and ended: writes and syncs
	sync, settled atomic.Uint64 // of wrote and flush: syncs
}

// flying returns how many operations are on the device: no less than there were at any moment of the call.
func (l *lane) flying() int {
	ended := l.ended.Load()
	return int(l.begun.Load() - ended)
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
		cfg: cfg, epoch: time.Now(), escorts: cfg.Peers != nil || cfg.Attribute && cfg.Meter != nil, medium: cfg.Medium,
		turn: Tiers - 1, looked: never, floor: never, armed: never, claimed: never, relayed: never, openUntil: never, heldSince: never,
	}
	g.ledger, _ = cfg.Peers.(Ledger)
	g.hush.gapper, _ = cfg.Watcher.(Gapper)
	for t := range Tiers {
		g.edge[t].Store(never)
		g.above[t].Store(never)
		g.lastIO[t], g.periodStart[t], g.retry[t] = never, never, never
	}
	if !cfg.Settings.Enabled || cfg.Watcher == nil && cfg.Peers == nil {
		g.nextLook.Store(-never)
	}
	return g
}

// Name returns the name of the device.
func (g *Gate) Name() string { return g.cfg.Name }

// Pass returns c's way through g. A nil *Gate gives a nil *Pass, which admits everything at once.
//
// The gate keeps times of better tiers' I/O only once a client that may have to wait has a pass, so passes are made before
// the I/O begins.
func (g *Gate) Pass(c *Client) *Pass {
	if g == nil {
		return nil
	}
	c.join(g)
	return &Pass{g, c, way{gate: g}}
}

// admit records that by clients more of policy p may come, or fewer.
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

// Shut lets no operation begin until Open: those that ask wait, whatever their policy.
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

// Open undoes Shut. Those that have come meanwhile are decided about in the order in which they came.
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

// release decides about those who came while the gate was shut or hushed. g.mu is held.
func (g *Gate) release(idle bool) {
	came := g.closed
	g.closed = nil
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
	g.settle()
}

// Sample meters one of so many operations besides those that are metered anyway, so that Observe learns something outside
// windows too; 0 ends it. It has no effect without a Meter.
func (g *Gate) Sample(every int) {
	if g.cfg.Meter != nil {
		g.sample.Store(uint64(max(0, every)))
	}
}

// Own returns how many bytes metered operations that have ended have had submitted to the device.
func (g *Gate) Own() Bytes { return Bytes{g.ownRead.Load(), g.ownWritten.Load()} }

// Syncs returns how many operations of kind Sync are on the device, and how many have begun. It takes no lock.
func (g *Gate) Syncs() (inflight int, begun uint64) {
	for i := range g.lanes {
		settled := g.lanes[i].settled.Load()
		n := g.lanes[i].sync.Load()
		inflight += int(n - settled)
		begun += n
	}
	return inflight, begun
}

// span returns the period of tier t on this medium. g.mu is held.
func (g *Gate) span(t Tier) int64 {
	if g.medium == SSD {
		return int64(g.cfg.Settings.PeriodSSD[t])
	}
	return int64(g.cfg.Settings.PeriodHDD[t])
}

// idle reports whether nobody is using the machine.
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

// effective returns the lane of a policy while the machine is idle, or not.
func effective(p Policy, idle bool) Tier {
	if p == Throttle && idle {
		return Utility.Tier()
	}
	return p.lane()
}

// census returns how many own operations have begun, and how many of them are on the device. It takes no lock. If none
// is, and none has begun at the next census either, then none was on the device in between.
func (g *Gate) census() (begun uint64, flying int) {
	ended := uint64(0)
	for i := range g.lanes {
		ended += g.lanes[i].ended.Load()
	}
	for i := range g.lanes {
		begun += g.lanes[i].begun.Load()
	}
	return begun, int(begun - ended)
}

// still reports whether no own operation is on the device.
func (g *Gate) still() bool {
	_, flying := g.census()
	return flying == 0
}
