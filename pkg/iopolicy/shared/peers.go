package shared

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// tries bounds the attempts of a compare-and-swap. Each failure means that another process succeeded, so more are
// needed only against a hostile one.
const tries = 100

// maxInflight is more I/O than a process can have in flight.
const maxInflight = 1 << 20

// again is when to try again after an undecided attempt.
const again = time.Millisecond

// Publish publishes that own I/O of tier t began or ended at a moment. A passive process does not publish. The end is
// published before Leave, so that a peer sees at least one of both.
func (s *State) Publish(t iopolicy.Tier, at time.Time) {
	v := s.clock.of(at)
	if t >= iopolicy.Tiers || !s.clock.past(v) {
		return
	}
	if v-s.refreshed.Load() >= refreshInterval {
		s.refresh(v)
	}
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	s.advance(&m.edge[t].Int64, v)
}

// Enter publishes that an own I/O of tier t is in flight.
func (s *State) Enter(t iopolicy.Tier) { s.count(t, 1) }

// Leave undoes Enter.
func (s *State) Leave(t iopolicy.Tier) { s.count(t, -1) }

func (s *State) count(t iopolicy.Tier, by int64) {
	if t >= iopolicy.Tiers {
		return
	}
	s.inflight[t].Add(by)
	m := s.now.Load() // read after the count: a change of the mapping counts afterwards
	defer runtime.KeepAlive(m)
	s.show(m, t)
}

// Seen returns when I/O of each tier was last published, by this process or another, and whether another process has
// some in flight. Own edges return exactly as they were given, which changes nothing for a gate.
func (s *State) Seen() (seen iopolicy.Sighting) {
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	// I/O in flight first: what ends later is published by the time the edges are read.
	if m.used.Load()&^m.held.Load() != 0 {
		m.others(func(i int, p *slot) { s.look(m, i, p, &seen) })
	}
	for t := range m.edge {
		if v := m.edge[t].Load(); s.clock.past(v) {
			seen.Newest[t] = s.clock.time(v)
		}
	}
	return seen
}

// look adds what the owner of one slot has in flight.
func (s *State) look(m *mapping, i int, p *slot, seen *iopolicy.Sighting) {
	var busy [iopolicy.Tiers]bool
	fresh := false
	for t := range p.inflight {
		n := p.inflight[t].Load()
		busy[t] = n > 0 && n < maxInflight
		fresh = fresh || busy[t] && !seen.Inflight[t]
	}
	if !fresh {
		return
	}
	o, ok := p.owner()
	if !ok || o.kind != gate || !m.alive(i, o, s.clock.now()) {
		return
	}
	for t := range busy {
		seen.Inflight[t] = seen.Inflight[t] || busy[t]
	}
}

// Claim reserves the slot that opens at now for an I/O of tier t, where slots of the tier are period apart: at most
// one process gets it. Otherwise next is when to try again, at most a period and a quarter and a millisecond away.
// Tier 0 has no slots and needs none.
func (s *State) Claim(t iopolicy.Tier, now time.Time, period time.Duration) (ok bool, next time.Time) {
	return s.ask(t, now, period, true)
}

// Free returns what Claim would, and reserves nothing: for an operation that a cache may answer. If it reaches the
// device, Charge takes the slot. Until then other processes may find it free too, as in one gate, where several may
// run until one is charged.
func (s *State) Free(t iopolicy.Tier, now time.Time, period time.Duration) (ok bool, next time.Time) {
	return s.ask(t, now, period, false)
}

// Charge records that an I/O of tier t that reached the device was issued at a moment. The periods of the tier and of
// all better ones start then, unless they start later.
func (s *State) Charge(t iopolicy.Tier, at time.Time) {
	v := s.clock.of(at)
	if t == 0 || t >= iopolicy.Tiers || !s.clock.past(v) {
		return
	}
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	for range tries {
		word := m.turn.Load()
		last, tier := s.turn(word)
		if last >= v {
			break
		}
		s.note(m, tier, last)
		if m.turn.CompareAndSwap(word, v<<2|int64(t)) {
			break
		}
	}
	s.note(m, t, v)
}

func (s *State) ask(t iopolicy.Tier, now time.Time, period time.Duration, take bool) (ok bool, next time.Time) {
	if t == 0 || t >= iopolicy.Tiers {
		return true, now
	}
	at := s.clock.of(now)
	if !s.clock.past(at) {
		at = s.clock.now()
	}
	if at-s.refreshed.Load() >= refreshInterval {
		s.refresh(at)
	}
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	for range tries {
		word := m.turn.Load()
		due := s.due(m, word, t, at, int64(period))
		if at < due {
			return false, s.clock.time(due)
		}
		if !take {
			return true, now
		}
		last, tier := s.turn(word)
		s.note(m, tier, last)
		if m.turn.CompareAndSwap(word, at<<2|int64(t)) {
			s.note(m, t, at)
			return true, now
		}
	}
	return false, now.Add(again)
}

// turn decodes the word turn: when the newest slot was taken and by which tier; 0, 0: by none.
func (s *State) turn(word int64) (at int64, t iopolicy.Tier) {
	at, t = word>>2, iopolicy.Tier(word&3)
	if t == 0 || !s.clock.past(at) {
		return 0, 0
	}
	return at, t
}

// note records that tier t and all better ones started a period at a moment.
func (s *State) note(m *mapping, t iopolicy.Tier, at int64) {
	for u := iopolicy.Tier(1); u <= t; u++ {
		s.advance(&m.start[u], at)
	}
}

// advance sets a word to v, unless it is a later time in the past.
func (s *State) advance(w *atomic.Int64, v int64) {
	for range tries {
		old := w.Load()
		if old >= v && s.clock.past(old) || w.CompareAndSwap(old, v) {
			return
		}
	}
}

// due returns when the next slot for tier t opens, as things stand.
func (s *State) due(m *mapping, word int64, t iopolicy.Tier, at, period int64) int64 {
	last, tier := s.turn(word)
	own := int64(0)
	if v := m.start[t].Load(); s.clock.past(v) {
		own = v
	}
	if t <= tier {
		own = max(own, last)
	}
	ready := int64(0)
	if own > 0 {
		ready = own + period
	}
	if last == 0 {
		return ready
	}
	gap := min(s.spacing.Load(), period)
	open := last + gap
	if s.yieldsTo(m, t, tier, last) {
		open += gap / 4
	}
	if at >= ready && at < open {
		s.advance(&m.want[t], at)
	}
	return max(ready, open)
}

// yieldsTo reports whether a tier before t in the order after the last one has been waiting for the slot.
func (s *State) yieldsTo(m *mapping, t, last iopolicy.Tier, since int64) bool {
	for u := nextTier(last); u != t; u = nextTier(u) {
		if v := m.want[u].Load(); v > since && s.clock.past(v) {
			return true
		}
	}
	return false
}

// nextTier returns the tier after t in the order 3, 2, 1, 3.
func nextTier(t iopolicy.Tier) iopolicy.Tier {
	if t <= 1 {
		return iopolicy.Tiers - 1
	}
	return t - 1
}
