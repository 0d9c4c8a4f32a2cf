package iopolicy

import (
	"context"
	"runtime"
	"time"
)

// Pass is a client's access to one gate. A nil *Pass admits everything at once. It is safe for concurrent use.
type Pass struct {
	gate   *Gate
	client *Client
	plain  opState // of operations that are neither metered nor budgeted
}

// opState is the state of an operation that does not fit into a Grant.
type opState struct {
	gate    *Gate
	before  Bytes
	cost    int64 // estimated device time; 0: no budget
	ahead   int64 // for how long others wait behind it
	entered int64 // budget.shared when the operation was issued
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
	return g.largest()
}

// lane returns the lane of the next operation. As in XNU, tier 3 is tier 2 while the user is away.
func (p *Pass) lane() Tier {
	policy := p.client.Policy()
	if policy == Throttle && p.gate.cfg.Idle != nil {
		return effective(policy, p.gate.idle())
	}
	return policy.lane()
}

// cheap is the longest duration of an operation that cannot have waited for a device: a copy out of the page cache.
const cheap = int64(8 * time.Microsecond)

// untimed marks an operation whose times are not recorded.
const untimed = never

// timed reports whether the times of operations of a lane must be recorded.
func (g *Gate) timed(at Tier) bool {
	return waits(at) || at == 0 && (g.waiting.Load() != 0 || g.cfg.Peers != nil)
}

// Begin waits until an operation may begin. If ctx ends first, it returns the cause, and there must be no operation.
// The caller must hold no lock or resource that others need, above all no other Grant of the same gate.
func (p *Pass) Begin(ctx context.Context, op Op) (Grant, error) {
	if ctx == nil { // the caller has no context
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
	g.lanes[at].write(op.Kind, 1)
	g.lanes[at].begun.Add(1)
	if g.alert.Load() != 0 || waits(at) && g.open(at, began) {
		g.lanes[at].begun.Add(^uint64(0))
		g.lanes[at].write(op.Kind, ^uint64(0))
		return g.ask(ctx, p, op)
	}
	m := marked(op, at, g.period.Load())
	if m&bare == 0 || g.slow {
		return g.slowPath(Grant{way: &p.plain, began: began, mark: m}), nil
	}
	return Grant{way: &p.plain, began: began, mark: m}, nil
}

// Do does one operation: it calls f once Begin has admitted it, with the grant's bound. f returns how many bytes it
// moved.
func (p *Pass) Do(ctx context.Context, op Op, f func(bound int) (int, error)) (int, error) {
	g, err := p.Begin(ctx, op)
	if err != nil {
		return 0, err
	}
	n := 0
	defer func() { g.End(n) }() // even if f panics: a lost grant keeps a window open for ever
	n, err = f(g.Max)
	return n, err
}

// Grant is the permission for one operation. End must be called exactly once, on the goroutine that called Begin.
type Grant struct {
	Max int // the largest I/O allowed, in bytes; 0: any

	way   *opState
	began int64 // when the operation began; untimed
	mark  mark  // the fourth word: five would be passed in memory
}

// mark packs the period in which an operation was issued in its upper bits, then its kind, its lane, and whether it is
// certain, metered, bare (neither certain nor a write) or inside a window.
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

// End records that the operation is over and how many bytes it moved. It never waits for a slot.
//
// The operation has reached the device if Op.Certain says so; else by the Meter, if there is one and a window was open
// (a Sync that took longer than a cache has reached it in any case); else if it is a Write that moved bytes, or took
// longer than a copy out of a cache: 8 microseconds.
func (g Grant) End(n int) { g.end(n, 1, 1) }

// EndBatch is End of an operation that was several concurrent requests: their joint duration is not the device time of
// one.
func (g Grant) EndBatch(n, requests int) { g.end(n, 1, requests) }

// end ends an operation of several calls and requests. It reports whether they were as quick as a cache, or were not
// timed.
func (g Grant) end(n, calls, requests int) (quick bool) {
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
	reached := false
	if g.mark&(bare|metered) != bare || !quick {
		reached = gate.finish(g, n, now, quick)
	}
	if g.mark&inside != 0 {
		gate.small.Add(-1)
		if g.way.cost > 0 {
			gate.exit(g, n, requests, reached)
		}
	}
	lane.ended.Add(1) // after openWindow, so that the window has no hole
	if gate.cfg.Peers != nil && at != passive {
		gate.cfg.Peers.Leave(at)
	}
	if gate.alert.Load() != 0 {
		gate.onEnd()
	}
	switch {
	case waits(at) && g.mark.kind() == Sync:
		gate.bracket()
	case waits(at) && now >= gate.nextLook.Load():
		gate.boundary()
	}
	return quick
}

// issue starts an operation in a state. g.mu is held.
func (g *Gate) issue(p *Pass, op Op, at Tier, state State, now int64) Grant {
	grant := Grant{way: &p.plain, began: now, mark: marked(op, at, g.period.Load())}
	if !g.timed(at) {
		grant.began = untimed
	}
	if state == Engaged {
		grant.Max = g.largest()
		grant.mark |= inside
		g.small.Add(1)
		if g.budgeted() {
			grant.way = g.borrow()
			g.reserve(grant.way, op)
		}
	}
	if g.cfg.Meter != nil && (g.cfg.Attribute || state == Engaged && !op.Certain) {
		grant.mark |= metered
	}
	g.lanes[at].write(op.Kind, 1)
	g.lanes[at].begun.Add(1)
	g.announce(grant)
	if op.Certain {
		g.chargeGrant(grant, grant.began)
	}
	g.accountStall(now)
	return grant
}

// start begins an operation that was issued under mu, on the goroutine that will do it.
func (g Grant) start() Grant {
	if g.way.cost > 0 {
		g.way.gate.enter(g.way)
	}
	if g.mark&metered != 0 {
		g = g.meter()
	}
	if g.began != untimed {
		g.began = g.way.gate.now() // not counting the wake-up
	}
	return g
}

// slowPath completes the admission of an operation at full speed that is certain, a write, or attributed.
func (g *Gate) slowPath(grant Grant) Grant {
	g.announce(grant)
	if grant.mark&certain != 0 {
		g.mu.Lock()
		g.chargeGrant(grant, grant.began)
		g.mu.Unlock()
	}
	if g.cfg.Attribute && g.cfg.Meter != nil {
		grant.mark |= metered
		grant = grant.meter()
	}
	return grant
}

// announce counts an operation that is about to begin for the peers.
func (g *Gate) announce(grant Grant) {
	if at := grant.mark.lane(); g.cfg.Peers != nil && at != passive {
		g.cfg.Peers.Enter(at)
	}
}

// borrow returns memory for the state of one operation.
func (g *Gate) borrow() *opState {
	if w, ok := g.ways.Get().(*opState); ok {
		return w
	}
	return &opState{gate: g}
}

// meter records what the thread has submitted so far, and locks the goroutine to it.
func (g Grant) meter() Grant {
	gate, w := g.way.gate, g.way
	if w.cost == 0 {
		w = gate.borrow()
	}
	runtime.LockOSThread()
	w.before = gate.cfg.Meter.Submitted()
	g.way = w
	if g.began == untimed {
		g.began = gate.now()
	}
	return g
}

// chargeGrant opens the window of a certain operation and charges it. g.mu is held.
func (g *Gate) chargeGrant(grant Grant, at int64) {
	tier := grant.mark.lane()
	if tier == passive || at == untimed {
		return
	}
	g.openWindow(tier, at, at)
	if tier > 0 && grant.way.cost == 0 {
		g.charge(tier, at, grant.mark)
	}
	if g.cfg.Peers != nil {
		g.cfg.Peers.Publish(tier, g.time(at))
	}
}

// finish ends the metering of an operation. If it has reached the device, finish opens its window and charges it to
// the moment of its issue; an operation with a budget is charged by exit. It reports whether the device was reached.
func (g *Gate) finish(grant Grant, n int, now int64, quick bool) (reached bool) {
	at, kind := grant.mark.lane(), grant.mark.kind()
	reached = g.reached(grant, n, quick)
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
		return reached
	}
	g.mu.Lock()
	g.openWindow(at, grant.began, now)
	if at > 0 && grant.mark&certain == 0 && grant.way.cost == 0 {
		g.charge(at, grant.began, grant.mark)
	}
	g.mu.Unlock()
	if g.cfg.Peers != nil {
		g.cfg.Peers.Publish(at, g.time(now))
	}
	return true
}

// reached reports whether an operation was at the device, and ends its metering.
func (g *Gate) reached(grant Grant, n int, quick bool) bool {
	kind, sure := grant.mark.kind(), grant.mark&certain != 0
	if grant.mark&metered == 0 {
		return sure || kind == Write && n > 0 || !quick
	}
	var own Bytes
	if !quick || kind.writes() || sure {
		after := g.cfg.Meter.Submitted()
		own = Bytes{after.Read - grant.way.before.Read, after.Written - grant.way.before.Written}
		g.submitted.add(own)
	}
	runtime.UnlockOSThread()
	if grant.way.cost == 0 {
		g.ways.Put(grant.way)
	}
	return sure || own != Bytes{} || kind == Sync && !quick
}

// onEnd updates the sleepers after an operation has ended.
func (g *Gate) onEnd() {
	g.mu.Lock()
	now := g.now()
	g.accountStall(now)
	g.advanceGap(now)
	g.passOn(now)
	g.fill(now)
	g.pause()
	if g.budgeted() {
		g.arm(now) // the slot grant may have ended with the operation
	}
	g.mu.Unlock()
}
