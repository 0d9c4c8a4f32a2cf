package iopolicy

import (
	"context"
	"math"
	"slices"
	"time"
)

// waiter is an operation that sleeps.
type waiter struct {
	ctx   context.Context
	pass  *Pass
	op    Op
	lane  Tier
	since int64 // of its sleep in this queue
	grant Grant
	ready chan struct{} // closed when it may start, under the gate's mu
}

// ask is Begin for an operation that the fast path does not admit.
func (g *Gate) ask(ctx context.Context, p *Pass, op Op) (Grant, error) {
	idle := p.client.Policy() == Throttle && g.idle()
	g.mu.Lock()
	now := g.now()
	at := effective(p.client.Policy(), idle) // read under mu: a later change finds this operation in a queue
	if !g.barred(at) {
		if state := g.state(at, op, now); state != Waiting {
			grant := g.issue(p, op, at, state, now)
			g.mu.Unlock()
			return grant.start(), nil
		}
	}
	w := &waiter{ctx: ctx, pass: p, op: op, lane: at, ready: make(chan struct{})}
	g.place(w, now, last)
	g.settle()
	g.advanceGap(now) // the last End may have counted this operation as begun
	g.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		if g.abandon(w) {
			return Grant{}, context.Cause(ctx)
		}
	}
	return w.grant.start(), nil
}

// barred reports whether operations of a lane are held back regardless of windows. g.mu is held.
func (g *Gate) barred(at Tier) bool { return g.shut || g.forced.on && waits(at) }

// state returns the state for a lane. g.mu is held.
func (g *Gate) state(at Tier, op Op, now int64) State {
	if !waits(at) {
		return Disengaged
	}
	return g.decide(at, op, now)
}

// last is the position at the end of a queue.
const last = math.MaxInt

// place starts w, or queues it behind that many others of its tier. It reports whether w was queued. g.mu is held;
// settle must follow.
func (g *Gate) place(w *waiter, now int64, behind int) bool {
	if g.barred(w.lane) {
		g.queue.closed = append(g.queue.closed, w)
		return false
	}
	if state := g.state(w.lane, w.op, now); state != Waiting {
		g.hand(w, state, now)
		return false
	}
	q := &g.queue.of[w.lane]
	switch {
	case len(*q) > 0:
	case g.budgeted():
		g.slot.periodStart[w.lane] = max(g.slot.periodStart[w.lane], g.slot.lastIO[w.lane])
	default:
		g.slot.periodStart[w.lane] = g.slot.lastIO[w.lane]
	}
	*q = slices.Insert(*q, min(behind, len(*q)), w)
	w.since = now
	g.queue.sleepers++
	g.alert.Add(1)
	g.accountStall(now)
	return true
}

// leave removes w from its queue. g.mu is held.
func (g *Gate) leave(w *waiter, now int64) bool {
	q := &g.queue.of[w.lane]
	at := slices.Index(*q, w)
	if at < 0 {
		return false
	}
	*q = slices.Delete(*q, at, at+1)
	g.count.asleep[w.lane] += now - w.since
	g.queue.sleepers--
	g.alert.Add(-1)
	g.accountStall(now)
	return true
}

// hand starts w. g.mu is held.
func (g *Gate) hand(w *waiter, state State, now int64) {
	w.grant = g.issue(w.pass, w.op, w.lane, state, now)
	close(w.ready)
}

// abandon withdraws w, unless it was started before its context ended.
func (g *Gate) abandon(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.ready:
		return false
	default:
	}
	now := g.now()
	if waits(w.lane) && g.leave(w, now) {
		g.arm(now)
	}
	if at := slices.Index(g.queue.closed, w); at >= 0 {
		g.queue.closed = slices.Delete(g.queue.closed, at, at+1)
	}
	return true
}

// settle grants the slots that are due, polls at the beginning of a gap, and sets the timer. g.mu is held.
func (g *Gate) settle() {
	now := g.now()
	g.fill(now)
	if g.queue.sleepers > 0 && !g.shut {
		if now >= g.due() {
			g.tick()
			return
		}
		g.pause()
	}
	g.arm(now)
}

// pause polls the watcher when a gap begins. g.mu is held.
func (g *Gate) pause() {
	if begun, flying := g.operations(); g.queue.sleepers > 0 && flying == 0 && g.gap != begun+1 {
		g.poll()
	}
}

// due returns when the next slot is granted: when the period of a tier with sleepers is over, but not within tier 1's
// period of the last grant or of the last I/O before tier 1 began to queue. While a slot has budget left, sleepers
// wait for an operation in flight to end, and not for a slot. g.mu is held.
func (g *Gate) due() int64 {
	if g.budgeted() && !g.slot.spent && g.budget.load > 0 {
		return math.MaxInt64
	}
	first := int64(math.MaxInt64)
	for t := Tier(1); t < Tiers; t++ {
		if len(g.queue.of[t]) > 0 {
			first = min(first, g.turnAt(t))
		}
	}
	return max(first, g.slot.floor, g.slot.periodStart[1]+g.span(1))
}

// turnAt returns when tier t may have a slot. g.mu is held.
func (g *Gate) turnAt(t Tier) int64 {
	return max(g.slot.periodStart[t]+g.span(t), g.slot.retry[t], g.gapEnd(t))
}

// wake is the timer function.
func (g *Gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.armed = never
	if now := g.now(); g.queue.sleepers == 0 || g.shut || now < g.due() {
		g.passOn(now)
		g.arm(now)
		return
	}
	g.tick()
}

// tick grants a slot to one tier: its first waiter starts, and a new period begins. Then it starts all waiters whose
// windows have closed. g.mu is held, and a slot is due.
func (g *Gate) tick() {
	g.poll()
	now := g.now()
	var open [Tiers]bool
	for t := Tier(1); t < Tiers; t++ {
		open[t] = g.open(t, now)
	}
	for g.queue.sleepers > 0 && now >= g.due() { // once, except for periods of 0 and slots that peers have
		t := g.next(now)
		w := g.first(t, now)
		if w == nil || open[t] && !g.claim(t, now) {
			continue
		}
		g.slot.spent = false
		some := g.beginTurn(t, now)
		g.period.Add(1)
		g.slot.floor = now + g.span(1)
		for better := Tier(1); better <= t; better++ {
			g.slot.periodStart[better] = now
		}
		if g.slot.next = t - 1; g.slot.next == 0 {
			g.slot.next = Tiers - 1
		}
		g.slot.at = never
		if open[t] && g.budgeted() && !some {
			g.slot.spent, g.budget.spentAt = true, now
			continue
		}
		g.leave(w, now)
		state := Disengaged
		if open[t] {
			state = Engaged
			g.slot.at, g.slot.holder = now, t
		}
		g.hand(w, state, now)
	}
	for t := Tier(1); t < Tiers; t++ {
		for !open[t] {
			w := g.first(t, now)
			if w == nil {
				break
			}
			g.leave(w, now)
			g.hand(w, Disengaged, now)
		}
	}
	g.fill(now)
	g.arm(now)
}

// patience is how long a slot waits for an I/O that reaches the device. An operation may be answered by a cache, and
// waiters behind it must not sleep for that.
const patience = time.Millisecond

// passOn passes a slot that was not used within patience to the next waiter of the same tier, in the same period. It
// sets the timer if the slot may be passed on later. g.mu is held.
func (g *Gate) passOn(now int64) {
	if g.shut || !g.canPassOn() {
		return
	}
	if now-g.slot.at < int64(patience) {
		g.arm(now)
		return
	}
	if !g.open(g.slot.holder, now) {
		return
	}
	if w := g.first(g.slot.holder, now); w != nil {
		g.slot.at = now
		g.leave(w, now)
		g.hand(w, Engaged, now)
	}
}

// canPassOn reports whether the present slot is unused and its operation has ended. g.mu is held.
func (g *Gate) canPassOn() bool {
	unused := g.slot.at != never && !g.slot.spent
	return !g.budgeted() && unused && len(g.queue.of[g.slot.holder]) > 0 && g.small.Load() == 0
}

// next returns the tier that gets the slot: of those with sleepers and a period that is over, the next in the order 3,
// 2, 1, 3. g.mu is held, and there is one.
func (g *Gate) next(now int64) Tier {
	t := g.slot.next
	for len(g.queue.of[t]) == 0 || now < g.turnAt(t) {
		if t--; t == 0 {
			t = Tiers - 1
		}
	}
	return t
}

// first returns the first waiter of tier t, after removing those before it whose contexts have ended. g.mu is held.
func (g *Gate) first(t Tier, now int64) *waiter {
	for len(g.queue.of[t]) > 0 {
		w := g.queue.of[t][0]
		if w.ctx.Err() == nil {
			return w
		}
		g.leave(w, now)
	}
	return nil
}

// claim reserves a slot of tier t from the peers, or records when to try again. g.mu is held.
func (g *Gate) claim(t Tier, now int64) bool {
	if g.cfg.Peers == nil {
		return true
	}
	ok, next := g.cfg.Peers.Claim(t, g.time(now), time.Duration(g.span(t)))
	if !ok {
		// Ask again neither at once nor later than a period from now, whatever the peers say.
		soonest := now + int64(peerMaxAge)
		g.slot.retry[t] = min(max(int64(next.Sub(g.epoch)), soonest), max(now+g.span(t), soonest))
	}
	if ok {
		g.slot.claimed = now
	}
	return ok
}

// arm sets the timer to the next slot, or stops it when there are no waiters. g.mu is held.
func (g *Gate) arm(now int64) {
	at := never
	if g.queue.sleepers > 0 && !g.shut {
		if at = g.due(); g.canPassOn() {
			at = min(at, g.slot.at+int64(patience))
		}
		if at == math.MaxInt64 {
			at = never
		}
	}
	if at == g.queue.armed {
		return
	}
	g.queue.armed = at
	switch {
	case g.queue.timer == nil:
		g.queue.timer = time.AfterFunc(time.Duration(at-now), g.wake)
	case at == never:
		g.queue.timer.Stop()
	default:
		g.queue.timer.Reset(time.Duration(at - now))
	}
}

// accountStall updates the time in which operations sleep and none is in flight. g.mu is held.
func (g *Gate) accountStall(now int64) {
	if g.count.heldSince != never {
		g.count.held += now - g.count.heldSince
		g.count.heldSince = never
	}
	if g.queue.sleepers > 0 && g.drained() {
		g.count.heldSince = now
	}
}

// reconsider re-evaluates the waiters of a client whose policy has changed. As in XNU they come before the others of
// their new tier, in their old order.
func (g *Gate) reconsider(c *Client) {
	idle := g.idle()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	at := effective(c.Policy(), idle)
	if g.forced.on && !waits(at) {
		g.endGap(now, idle) // the waiter is of a tier that the gap does not hold back
	}
	var moved []*waiter
	for t := Tier(1); t < Tiers; t++ {
		if t == at {
			continue
		}
		for _, w := range slices.Clone(g.queue.of[t]) {
			if w.pass.client == c {
				g.leave(w, now)
				w.lane = at
				moved = append(moved, w)
			}
		}
	}
	queued := 0
	for _, w := range moved {
		if g.place(w, now, queued) {
			queued++
		}
	}
	g.settle()
}
