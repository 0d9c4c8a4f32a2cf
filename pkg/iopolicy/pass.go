package iopolicy

import (
	"context"
	"runtime"
	"time"
)

// Pass is a client's way through one gate. A nil *Pass admits everything at once. It is safe for concurrent use.
type Pass struct {
	gate   *Gate
	client *Client
	plain  way // of operations that are not metered
}

// way is where an operation came through, and what its thread had submitted then if it is metered.
type way struct {
	gate   *Gate
	before Bytes
}

// Gate returns the gate; nil for a nil Pass.
func (p *Pass) Gate() *Gate {
	if p == nil {
		return nil
	}
	return p.gate
}

// Client returns the client; nil for a nil Pass.
func (p *Pass) Client() *Client {
	if p == nil {
		return nil
	}
	return p.client
}

// Bound returns the largest I/O that is allowed now, in bytes; 0: any. It does not wait and costs some nanoseconds.
func (p *Pass) Bound() int {
	if p == nil {
		return 0
	}
	g, at := p.gate, p.lane()
	if !waits(at) || !g.open(at, g.now()) {
		return 0
	}
	return g.cfg.Settings.MaxIOSize
}

// lane returns where the next operation counts. As in XNU, tier 3 is tier 2 altogether while nobody uses the machine.
func (p *Pass) lane() Tier {
	policy := p.client.Policy()
	if policy == Throttle && p.gate.cfg.Idle != nil {
		return effective(policy, p.gate.idle())
	}
	return policy.lane()
}

// cheap is how long an operation may take that cannot have waited for a device: a copy out of the page cache, not a
// transfer.
const cheap = int64(8 * time.Microsecond)

// untimed marks an operation that nobody needs to know the times of.
const untimed = never

// timed reports whether anybody needs to know when an operation of a lane was on the device.
func (g *Gate) timed(at Tier) bool {
	return waits(at) || at == 0 && (g.waiting.Load() != 0 || g.cfg.Peers != nil)
}

// Begin waits until an operation may begin. If ctx ends first, it returns the cause, and there must be no operation.
// Whoever calls holds nothing that others need meanwhile, above all no other Grant of the same gate.
func (p *Pass) Begin(ctx context.Context, op Op) (Grant, error) {
	if ctx == nil { // of a door that was opened without one
		ctx = context.Background()
	}
	if ctx.Err() != nil {
		return Grant{}, context.Cause(ctx)
	}
	if p == nil {
		return Grant{}, nil
	}
	g, at := p.gate, p.lane()
	began := untimed
	if g.timed(at) {
		began = g.now()
		switch {
		case waits(at) && op.Kind == Sync:
			g.bracket()
		case waits(at) && began >= g.nextLook.Load():
			g.boundary()
		}
	}
	nth := g.lanes[at].begun.Add(1)
	if g.alert.Load() != 0 || waits(at) && g.open(at, began) {
		g.lanes[at].begun.Add(^uint64(0))
		return g.ask(ctx, p, op)
	}
	m := marked(op, at, g.period.Load())
	every := g.sample.Load()
	if chosen := every != 0 && nth%every == 0; chosen || m&bare == 0 || g.escorts {
		return g.escort(Grant{way: &p.plain, began: began, mark: m}, chosen), nil
	}
	return Grant{way: &p.plain, began: began, mark: m}, nil
}

// Do does one operation: f is called once Begin admits it, with the grant's bound, and returns how many bytes it moved.
func (p *Pass) Do(ctx context.Context, op Op, f func(bound int) (int, error)) (int, error) {
	g, err := p.Begin(ctx, op)
	if err != nil {
		return 0, err
	}
	n := 0
	defer func() { g.End(n) }() // even if f panics: a grant that is lost holds a window open for ever
	n, err = f(g.Max)
	return n, err
}

// Grant is the leave to do one operation. End must be called exactly once, on the goroutine that called Begin.
type Grant struct {
	Max int // the largest I/O allowed, in bytes; 0: any

	way   *way
	began int64 // when the operation began; untimed
	mark  mark  // four words travel in registers, five in memory
}

// mark packs what else is known of an operation: the period in which it was issued in the upper bits, then its kind, its
// lane, and whether it is certain, metered, bare, which is neither certain nor a write, or
// inside a window.
type mark uint64

const (
	laneBits         = mark(7)
	kindShift        = 3
	kindBits         = mark(3) << kindShift
	certain     mark = 1 << 5
	metered     mark = 1 << 6
	bare        mark = 1 << 7
	inside      mark = 1 << 8 // a window
	periodShift      = 9
)

func marked(op Op, at Tier, period uint64) mark {
	m := mark(period)<<periodShift | mark(at) | mark(op.Kind)<<kindShift&kindBits
	if op.Certain {
		return m | certain
	}
	if !op.Kind.writes() {
		m |= bare
	}
	return m
}

func (m mark) lane() Tier { return Tier(m & laneBits) }
func (m mark) kind() Kind { return Kind(m & kindBits >> kindShift) }

// issued reports whether the operation was issued in a period.
func (m mark) issued(period uint64) bool {
	return m>>periodShift == mark(period)<<periodShift>>periodShift
}

// End tells that the operation is over and how many bytes it moved. It never waits for a turn.
//
// Whether the operation reached the device is told by Op.Certain, else by the Meter if there is one and a window was open
// (a Sync that took its time has reached it, whatever it submitted). Else a Write that moved bytes has, and of the others
// those that took longer than a copy out of a cache can: 8 microseconds.
func (g Grant) End(n int) { g.end(n, 1, true) }

// EndBatch is End of an operation that was so many requests at the same time: how long several took together says nothing
// of the time that the device takes for one.
func (g Grant) EndBatch(n, requests int) { g.end(n, 1, requests == 1) }

// end is End after a number of calls; single: of one request. It reports whether they were as quick as a cache is; while
// nobody needs to know, they were.
func (g Grant) end(n, calls int, single bool) (quick bool) {
	if g.way == nil {
		return true
	}
	gate, at := g.way.gate, g.mark.lane()
	now := untimed
	if g.began != untimed {
		now = gate.now()
	}
	lane := &gate.lanes[at]
	if n > 0 && g.mark&bare != 0 {
		lane.read.Add(uint64(n))
	}
	quick = now == untimed || now-g.began < cheap+int64(calls-1)*further
	if calls > 1 {
		gate.more.Add(uint64(calls - 1))
	}
	if g.mark&(bare|metered) != bare || !quick {
		gate.settleUp(g, n, now, outcome{quick, single})
	}
	if g.mark&inside != 0 {
		gate.small.Add(-1)
	}
	lane.ended.Add(1) // after its window was opened, so that there is no moment between
	if gate.cfg.Peers != nil && at != passive {
		gate.cfg.Peers.Leave(at)
	}
	if gate.alert.Load() != 0 {
		gate.breathe()
	}
	switch {
	case waits(at) && g.mark.kind() == Sync:
		gate.bracket()
	case waits(at) && now >= gate.nextLook.Load():
		gate.boundary()
	}
	return quick
}

// outcome is what the clock says of an operation.
type outcome struct {
	quick  bool // it need not have waited for a device
	single bool // it was one request
}

// issue lets an operation go in a state. g.mu is held.
func (g *Gate) issue(p *Pass, op Op, at Tier, state State, now int64) Grant {
	grant := Grant{way: &p.plain, began: now, mark: marked(op, at, g.period.Load())}
	if !g.timed(at) {
		grant.began = untimed
	}
	if state == Engaged {
		grant.Max = g.cfg.Settings.MaxIOSize
		grant.mark |= inside
		g.small.Add(1)
	}
	if g.cfg.Meter != nil && (g.cfg.Attribute || state == Engaged && !op.Certain) {
		grant.mark |= metered
	}
	g.lanes[at].begun.Add(1)
	g.announce(grant)
	if op.Certain {
		g.book(grant, grant.began)
	}
	g.weigh(now)
	return grant
}

// start begins an operation that was issued under mu, on the goroutine that will do it.
func (g Grant) start() Grant {
	if g.mark&metered != 0 {
		g = g.meter()
	}
	if g.began != untimed {
		g.began = g.way.gate.now() // not counting the way from the timer to here
	}
	return g
}

// escort does for an operation that was admitted at full speed what most need not.
func (g *Gate) escort(grant Grant, chosen bool) Grant {
	g.announce(grant)
	if grant.mark&certain != 0 {
		g.mu.Lock()
		g.book(grant, grant.began)
		g.mu.Unlock()
	}
	if (g.cfg.Attribute || chosen) && g.cfg.Meter != nil {
		grant.mark |= metered
		grant = grant.meter()
	}
	return grant
}

// announce tells watcher and peers of an operation that is about to begin.
func (g *Gate) announce(grant Grant) {
	at := grant.mark.lane()
	if kind := grant.mark.kind(); kind.writes() {
		g.lanes[at].wrote.Add(1)
		if kind == Sync {
			g.lanes[at].sync.Add(1)
		}
	}
	if g.cfg.Peers != nil && at != passive {
		g.cfg.Peers.Enter(at)
	}
}

// meter notes what the thread has submitted so far, and keeps the goroutine on it.
func (g Grant) meter() Grant {
	gate := g.way.gate
	w, ok := gate.ways.Get().(*way)
	if !ok {
		w = &way{gate: gate}
	}
	runtime.LockOSThread()
	w.before = gate.cfg.Meter.Submitted()
	g.way = w
	if g.began == untimed {
		g.began = gate.now()
	}
	return g
}

// book opens the window of an operation that is sure to reach the device, and charges it. g.mu is held.
func (g *Gate) book(grant Grant, at int64) {
	tier := grant.mark.lane()
	if tier == passive || at == untimed {
		return
	}
	g.stamp(tier, at, at)
	if tier > 0 {
		g.charge(tier, at, grant.mark)
	}
	if g.cfg.Peers != nil {
		g.cfg.Peers.Publish(tier, g.time(at))
	}
}

// settleUp ends the metering of an operation; if it has reached the device, its window is opened, and it is charged to
// the moment of its issue.
func (g *Gate) settleUp(grant Grant, n int, now int64, out outcome) {
	at, kind := grant.mark.lane(), grant.mark.kind()
	reached := g.reached(grant, n, now, out)
	if lane := &g.lanes[at]; kind.writes() {
		lane.written.Add(uint64(max(n, 0)))
		lane.flush.Add(1)
		if kind == Sync {
			lane.settled.Add(1)
		}
	} else if grant.mark&bare == 0 {
		lane.read.Add(uint64(max(n, 0)))
	}
	if !reached || at == passive || now == untimed {
		return
	}
	g.mu.Lock()
	g.stamp(at, grant.began, now)
	if at > 0 && grant.mark&certain == 0 {
		g.charge(at, grant.began, grant.mark)
	}
	g.mu.Unlock()
	if g.cfg.Peers != nil {
		g.cfg.Peers.Publish(at, g.time(now))
	}
}

// reached reports whether an operation was at the device, and ends its metering.
func (g *Gate) reached(grant Grant, n int, now int64, out outcome) bool {
	kind, sure := grant.mark.kind(), grant.mark&certain != 0
	if grant.mark&metered == 0 {
		return sure || kind == Write && n > 0 || !out.quick
	}
	var own Bytes
	if !out.quick || kind.writes() || sure {
		after := g.cfg.Meter.Submitted()
		own = Bytes{after.Read - grant.way.before.Read, after.Written - grant.way.before.Written}
		g.ownRead.Add(own.Read)
		g.ownWritten.Add(own.Written)
	}
	runtime.UnlockOSThread()
	g.ways.Put(grant.way)
	if g.cfg.Observe != nil && own != (Bytes{}) && out.single { // which of many took their time is not known
		g.cfg.Observe(kind, time.Duration(now-grant.began), own)
	}
	return sure || own != Bytes{} || kind == Sync && !out.quick
}

// breathe keeps the books of those who sleep after an operation has ended.
func (g *Gate) breathe() {
	g.mu.Lock()
	now := g.now()
	g.weigh(now)
	g.settleDown(now)
	g.relay(now)
	g.pause()
	g.mu.Unlock()
}
