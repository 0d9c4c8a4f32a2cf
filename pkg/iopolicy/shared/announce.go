package shared

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Process is one of those who share a device.
type Process struct {
	PID      int
	Started  int64 // when, as its system counts; with the PID it tells one process from the next of that id
	Policy   iopolicy.Policy
	Tier     iopolicy.Tier // of Policy
	Inflight [iopolicy.Tiers]int
	// Elsewhere is what it proved to have moved to and from other devices.
	Elsewhere iopolicy.Bytes
	// Announced: another process made the entry. This one knows nothing of it, has no gate and yields to nobody.
	Announced bool
	Live      bool
	Self      bool // of this State
}

// Processes returns who shares the device, in the order of their ids, this process included. Those that died and whose
// place nobody has taken yet are listed with Live false and nothing in flight.
func (s *State) Processes() (all []Process) {
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	used := m.used.Load()
	for i := range m.places {
		if used>>i&1 == 0 {
			continue
		}
		if p, ok := m.process(i); ok {
			p.Self = int32(i) == m.mine.Load()
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all
}

// process reads slot i.
func (m *mapping) process(i int) (p Process, ok bool) {
	place := &m.places[i]
	o, ok := place.owner()
	if !ok {
		return p, false
	}
	p = Process{
		PID: int(o.pid), Started: o.started, Policy: o.policy, Tier: o.policy.Tier(), Announced: o.manner != gate,
		Elsewhere: iopolicy.Bytes{Read: place.read.Load(), Written: place.written.Load()},
		Live:      m.held.Load()>>i&1 != 0 || m.lives(i, o),
	}
	for t := range place.inflight {
		if n := place.inflight[t].Load(); p.Live && n > 0 && n < crowd {
			p.Inflight[t] = int(n)
		}
	}
	again, ok := place.owner() // what was read in between belongs to o only if it still has the place
	return p, ok && again.generation == o.generation
}

// Entry stands for another program among those who share a device.
type Entry struct {
	state *State
	owner owner
}

// Announce makes an entry for a process that knows nothing of this. It lasts until Close, or the end of this process,
// or if it is detached, of that one. The error is ErrNoProcess or ErrFull, or why nothing is shared at the moment.
func (s *State) Announce(pid int, p iopolicy.Policy) (*Entry, error) {
	started, err := startOf(pid)
	if err != nil {
		return nil, fmt.Errorf("announce process %d: %w", pid, err)
	}
	e := &Entry{s, owner{pid: int64(pid), started: started, manner: announced, policy: p}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("announce process %d: %w", pid, err)
	}
	i := -1
	s.with(func(m *mapping) { i = m.take(e.owner) })
	if i < 0 {
		return nil, fmt.Errorf("announce process %d: %w", pid, ErrFull)
	}
	s.entries[e] = i
	return e, nil
}

// SetPolicy changes the policy of the entry.
func (e *Entry) SetPolicy(p iopolicy.Policy) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if i, ok := e.state.entries[e]; ok {
		e.owner.policy = p
		if i >= 0 {
			e.state.with(func(m *mapping) { m.places[i].setPolicy(p) })
		}
	}
}

// Detach lets the entry last as long as the process that it names, without this one. It cannot be changed or closed then.
func (e *Entry) Detach() error { return e.end((*mapping).leave) }

// Close removes the entry.
func (e *Entry) Close() error { return e.end((*mapping).give) }

func (e *Entry) end(how func(*mapping, int)) error {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if i, ok := e.state.entries[e]; ok && i >= 0 {
		e.state.with(func(m *mapping) { how(m, i) })
	}
	delete(e.state.entries, e)
	return nil
}

// with touches the mapping. The caller has s.mu.
func (s *State) with(f func(m *mapping)) {
	m := s.now.Load()
	was := debug.SetPanicOnFault(true)
	defer func() { s.fell(m, was, recover()) }()
	f(m)
}
