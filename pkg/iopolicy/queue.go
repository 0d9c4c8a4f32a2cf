package iopolicy

import (
	"context"
	"math"
	"slices"
	"time"
)

// waiter is an operation that was told to wait.
type waiter struct {
	ctx   context.Context
	pass  *Pass
	op    Op
	lane  Tier
	since int64 // of its sleep in this queue
	grant Grant
	ready chan struct{} // closed once it may go, under the gate's mu
}

// ask is Begin for an operation that cannot go without a closer look.
func (g *Gate) ask(ctx context.Context, p *Pass, op Op) (Grant, error) {
	idle := p.client.Policy() == Throttle && g.idle()
	g.mu.Lock()
	now := g.now()
	at := effective(p.client.Policy(), idle) // read under mu: who changes it later finds this operation in a queue
	if !g.barred(at) {
		if state := g.state(at, now); state != Now {
			grant := g.issue(p, op, at, state, now)
			g.mu.Unlock()
			return grant.start(), nil
		}
	}
	w := &waiter{ctx: ctx, pass: p, op: op, lane: at, ready: make(chan struct{})}
	g.place(w, now, last)
	g.settle()
	g.settleDown(now) // whoever ended last may have taken this one for an operation that had begun
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

// barred reports whether no operation of a lane begins now, whatever the windows say. g.mu is held.
func (g *Gate) barred(at Tier) bool { return g.shut || g.hush.on && waits(at) }

// state decides for a lane. g.mu is held.
func (g *Gate) state(at Tier, now int64) State {
	if !waits(at) {
		return Disengaged
	}
	return g.decide(at, now)
}

// last is the place at the end of a queue.
const last = math.MaxInt

// place lets w go, or queues it behind that many others of its tier. It reports whether w is in a queue. g.mu is held;
// settle must follow.
func (g *Gate) place(w *waiter, now int64, behind int) bool {
	if g.barred(w.lane) {
		g.closed = append(g.closed, w)
		return false
	}
	if state := g.state(w.lane, now); state != Now {
		g.hand(w, state, now)
		return false
	}
	q := &g.queues[w.lane]
	if len(*q) == 0 {
		g.periodStart[w.lane] = g.lastIO[w.lane]
	}
	*q = slices.Insert(*q, min(behind, len(*q)), w)
	w.since = now
	g.sleepers++
	g.alert.Add(1)
	g.weigh(now)
	return true
}

// leave takes w out of its queue. g.mu is held.
func (g *Gate) leave(w *waiter, now int64) bool {
	q := &g.queues[w.lane]
	at := slices.Index(*q, w)
	if at < 0 {
		return false
	}
	*q = slices.Delete(*q, at, at+1)
	g.asleep[w.lane] += now - w.since
	g.sleepers--
	g.alert.Add(-1)
	g.weigh(now)
	return true
}

// hand lets w go. g.mu is held.
func (g *Gate) hand(w *waiter, state State, now int64) {
	w.grant = g.issue(w.pass, w.op, w.lane, state, now)
	close(w.ready)
}

// abandon takes w back, unless it was let go before its context ended.
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
	if at := slices.Index(g.closed, w); at >= 0 {
		g.closed = slices.Delete(g.closed, at, at+1)
	}
	return true
}

// settle gives the turns that are due, looks at the beginning of a gap, and sets the timer. g.mu is held.
func (g *Gate) settle() {
	now := g.now()
	if g.sleepers > 0 && !g.shut {
		if now >= g.due() {
			g.tick()
			return
		}
		g.pause()
	}
	g.arm(now)
}

// pause looks at others' I/O when a gap begins. g.mu is held.
func (g *Gate) pause() {
	if begun, flying := g.census(); g.sleepers > 0 && flying == 0 && g.gap != begun+1 {
		g.glance()
	}
}

// due returns when the next turn comes: when the period of some tier with sleepers is over, but no sooner than tier 1's
// after the last turn, or after the last I/O before tier 1 began to queue. g.mu is held.
func (g *Gate) due() int64 {
	first := int64(math.MaxInt64)
	for t := Tier(1); t < Tiers; t++ {
		if len(g.queues[t]) > 0 {
			first = min(first, g.ripe(t))
		}
	}
	return max(first, g.floor, g.periodStart[1]+g.span(1))
}

// ripe returns when tier t may have a turn. g.mu is held.
func (g *Gate) ripe(t Tier) int64 { return max(g.periodStart[t]+g.span(t), g.retry[t]) }

// wake is the timer.
func (g *Gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = never
	if now := g.now(); g.sleepers == 0 || g.shut || now < g.due() {
		g.relay(now)
		g.arm(now)
		return
	}
	g.tick()
}

// tick gives one tier its turn: its first waiter may issue one I/O, and with it begins a new period. Then all those whose
// windows have closed may go. g.mu is held, and a turn is due.
func (g *Gate) tick() {
	g.glance()
	now := g.now()
	var open [Tiers]bool
	for t := Tier(1); t < Tiers; t++ {
		open[t] = g.open(t, now)
	}
	for g.sleepers > 0 && now >= g.due() { // once, but for periods of 0 and for slots that peers have
		t := g.next(now)
		w := g.first(t, now)
		if w == nil || open[t] && !g.claim(t, now) {
			continue
		}
		g.spent = false
		g.period.Add(1)
		g.floor = now + g.span(1)
		for better := Tier(1); better <= t; better++ {
			g.periodStart[better] = now
		}
		if g.turn = t - 1; g.turn == 0 {
			g.turn = Tiers - 1
		}
		g.leave(w, now)
		state := Disengaged
		g.relayed = never
		if open[t] {
			state = Engaged
			g.relayed, g.relayTier = now, t
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
	g.arm(now)
}

// patience is how long a turn waits for an I/O that reaches the device. Whoever has it may find all it needs in a cache, or
// have nothing more to do; those behind must not sleep for that.
const patience = time.Millisecond

// relay passes a turn on that was not used within patience: to the next of the same tier, in the same period. It sets the
// timer if there is one to wait for. g.mu is held.
func (g *Gate) relay(now int64) {
	if g.shut || !g.relayable() {
		return
	}
	if now-g.relayed < int64(patience) {
		g.arm(now)
		return
	}
	if !g.open(g.relayTier, now) {
		return
	}
	if w := g.first(g.relayTier, now); w != nil {
		g.relayed = now
		g.leave(w, now)
		g.hand(w, Engaged, now)
	}
}

// relayable reports whether the present turn can still be passed on: nobody who has it is at the device. g.mu is held.
func (g *Gate) relayable() bool {
	return g.relayed != never && !g.spent && len(g.queues[g.relayTier]) > 0 && g.small.Load() == 0
}

// next returns the tier whose turn it is: of those that are ripe and have sleepers the next in the order 3, 2, 1, 3.
// g.mu is held, and there is one.
func (g *Gate) next(now int64) Tier {
	t := g.turn
	for len(g.queues[t]) == 0 || now < g.ripe(t) {
		if t--; t == 0 {
			t = Tiers - 1
		}
	}
	return t
}

// first returns the first waiter of tier t, and takes out those before it whose contexts have ended. g.mu is held.
func (g *Gate) first(t Tier, now int64) *waiter {
	for len(g.queues[t]) > 0 {
		w := g.queues[t][0]
		if w.ctx.Err() == nil {
			return w
		}
		g.leave(w, now)
	}
	return nil
}

// claim asks the peers for a slot of tier t, and remembers when to ask again. g.mu is held.
func (g *Gate) claim(t Tier, now int64) bool {
	if g.cfg.Peers == nil {
		return true
	}
	ok, next := g.cfg.Peers.Claim(t, g.time(now), time.Duration(g.span(t)))
	if !ok {
		// Whatever the peers say, it is worth asking again neither at once nor later than a period from now.
		soonest := now + int64(hearsay)
		g.retry[t] = min(max(int64(next.Sub(g.epoch)), soonest), max(now+g.span(t), soonest))
	}
	if ok {
		g.claimed = now
	}
	return ok
}

// arm sets the timer to the next turn, or stops it when nobody waits for one. g.mu is held.
func (g *Gate) arm(now int64) {
	at := never
	if g.sleepers > 0 && !g.shut {
		at = g.due()
		if g.relayable() {
			at = min(at, g.relayed+int64(patience))
		}
	}
	if at == g.armed {
		return
	}
	g.armed = at
	switch {
	case g.timer == nil:
		g.timer = time.AfterFunc(time.Duration(at-now), g.wake)
	case at == never:
		g.timer.Stop()
	default:
		g.timer.Reset(time.Duration(at - now))
	}
}

// weigh keeps the time in which somebody sleeps and nothing of ours is on the device. g.mu is held.
func (g *Gate) weigh(now int64) {
	if g.heldSince != never {
		g.held += now - g.heldSince
		g.heldSince = never
	}
	if g.sleepers > 0 && g.still() {
		g.heldSince = now
	}
}

// reconsider decides anew about the waiters of a client whose policy has changed. As in XNU they come before the others
// of their new tier; among themselves they keep their order.
func (g *Gate) reconsider(c *Client) {
	idle := g.idle()
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	at := effective(c.Policy(), idle)
	if g.hush.on && !waits(at) {
		g.endHush(now, idle) // who has come is of no tier that it keeps away
	}
	var moved []*waiter
	for t := Tier(1); t < Tiers; t++ {
		if t == at {
			continue
		}
		for _, w := range slices.Clone(g.queues[t]) {
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
