package shared

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// tries is how often a word is tried for against others who change it. Each time somebody else got on, so that more are
// needed only where somebody means harm.
const tries = 100

// crowd is more I/O than a process can have in flight.
const crowd = 1 << 20

// again is when to ask again for what could not be decided.
const again = time.Millisecond

// Publish tells the peers of own I/O of tier t that began or ended at a moment. A passive process does not publish. The
// end is published before Leave, lest a peer sees neither.
func (s *State) Publish(t iopolicy.Tier, at time.Time) {
	v := s.clock.of(at)
	if t >= iopolicy.Tiers || !s.clock.past(v) {
		return
	}
	if v-s.tended.Load() >= tending {
		s.tend(v)
	}
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	s.advance(&m.edge[t].Int64, v)
}

// Enter tells that an own I/O of tier t is on the device.
func (s *State) Enter(t iopolicy.Tier) { s.count(t, 1) }

// Leave undoes Enter.
func (s *State) Leave(t iopolicy.Tier) { s.count(t, -1) }

func (s *State) count(t iopolicy.Tier, by int64) {
	if t >= iopolicy.Tiers {
		return
	}
	s.inflight[t].Add(by)
	m := s.now.Load() // after the count: who changes the mapping counts after the change
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	s.show(m, t)
}

// Seen returns when I/O of each tier was last published, by this process or another, and whether another has some on the
// device now. That an own edge is among them changes nothing for a gate, which knows it: it comes back exactly as it
// was given.
func (s *State) Seen() (seen iopolicy.Sighting) {
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	// What is in flight first: who ends after that has published it by the time that the edges are read.
	if m.used.Load()&^m.held.Load() != 0 {
		m.others(func(i int, p *place) { s.look(m, i, p, &seen) })
	}
	for t := range m.edge {
		if v := m.edge[t].Load(); s.clock.past(v) {
			seen.Newest[t] = s.clock.time(v)
		}
	}
	return seen
}

// look adds what the owner of one slot has in flight.
func (s *State) look(m *mapping, i int, p *place, seen *iopolicy.Sighting) {
	var busy [iopolicy.Tiers]bool
	fresh := false
	for t := range p.inflight {
		n := p.inflight[t].Load()
		busy[t] = n > 0 && n < crowd
		fresh = fresh || busy[t] && !seen.Inflight[t]
	}
	if !fresh {
		return
	}
	o, ok := p.owner()
	if !ok || o.manner != gate || !m.alive(i, o, s.clock.now()) {
		return
	}
	for t := range busy {
		seen.Inflight[t] = seen.Inflight[t] || busy[t]
	}
}

// Claim asks for the slot that opens at now for an I/O of tier t, where slots of the tier are period apart: at most one
// process gets it. Otherwise next is when to ask again, at most a period and a quarter and a millisecond away. Tier 0
// has no slots and needs none.
func (s *State) Claim(t iopolicy.Tier, now time.Time, period time.Duration) (ok bool, next time.Time) {
	return s.ask(t, now, period, true)
}

// Free tells what Claim would, and takes nothing: for an operation that may turn out to be answered by a cache. If it was
// not, Charge takes the slot. Until then others may find it free too, as in one gate, where several may run until one is
// charged.
func (s *State) Free(t iopolicy.Tier, now time.Time, period time.Duration) (ok bool, next time.Time) {
	return s.ask(t, now, period, false)
}

// Charge tells that an I/O of tier t that reached the device was issued at a moment: whoever asked or did not, the periods
// of the tier and of all better ones start then, if not later.
func (s *State) Charge(t iopolicy.Tier, at time.Time) {
	v := s.clock.of(at)
	if t == 0 || t >= iopolicy.Tiers || !s.clock.past(v) {
		return
	}
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
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
	if at-s.tended.Load() >= tending {
		s.tend(at)
	}
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	next = now.Add(again) // if the file vanishes under us
	defer func() { s.fell(m, was, recover()) }()
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

// turn reads the word of that name: when the newest slot was taken and by which tier; 0, 0: by nobody.
func (s *State) turn(word int64) (at int64, t iopolicy.Tier) {
	at, t = word>>2, iopolicy.Tier(word&3)
	if t == 0 || !s.clock.past(at) {
		return 0, 0
	}
	return at, t
}

// note writes down that tier t and all better ones started a period at a moment.
func (s *State) note(m *mapping, t iopolicy.Tier, at int64) {
	for u := iopolicy.Tier(1); u <= t; u++ {
		s.advance(&m.start[u], at)
	}
}

// advance makes a word v, unless it is a time in the past that is later.
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
	if s.outranked(m, t, tier, last) {
		open += gap / 4
	}
	if at >= ready && at < open {
		s.advance(&m.want[t], at)
	}
	return max(ready, open)
}

// outranked reports whether a tier that comes before t in the turn after the last one has been waiting for the slot.
func (s *State) outranked(m *mapping, t, last iopolicy.Tier, since int64) bool {
	for u := following(last); u != t; u = following(u) {
		if v := m.want[u].Load(); v > since && s.clock.past(v) {
			return true
		}
	}
	return false
}

// following returns whose turn is after that of t: 3, 2, 1, 3.
func following(t iopolicy.Tier) iopolicy.Tier {
	if t <= 1 {
		return iopolicy.Tiers - 1
	}
	return t - 1
}
