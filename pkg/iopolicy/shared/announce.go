package shared

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Process is a process that shares a device.
type Process struct {
	PID      int
	Started  int64 // start time in units of the system, which distinguishes processes with the same PID
	Policy   iopolicy.Policy
	Tier     iopolicy.Tier // of Policy
	Inflight [iopolicy.Tiers]int
	// Elsewhere is what it has moved to and from other devices.
	Elsewhere iopolicy.Bytes
	// Announced: another process made the entry. The process has no gate and yields to none.
	Announced bool
	Live      bool
	Self      bool // of this State
}

// Processes returns the processes that share the device by ID, this one included. Dead ones whose slot was not
// reassigned have Live false and nothing in flight.
func (s *State) Processes() (all []Process) {
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	used := m.used.Load()
	for i := range m.slots {
		if used>>i&1 == 0 {
			continue
		}
		if p, ok := m.process(i); ok {
			p.Self = int32(i) == m.ownSlot.Load()
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all
}

// process reads slot i.
func (m *mapping) process(i int) (p Process, ok bool) {
	slot := &m.slots[i]
	o, ok := slot.owner()
	if !ok {
		return p, false
	}
	p = Process{
		PID: int(o.pid), Started: o.started, Policy: o.policy, Tier: o.policy.Tier(), Announced: o.kind != gate,
		Elsewhere: iopolicy.Bytes{Read: slot.read.Load(), Written: slot.written.Load()},
		Live:      m.held.Load()>>i&1 != 0 || m.lives(i, o),
	}
	for t := range slot.inflight {
		if n := slot.inflight[t].Load(); p.Live && n > 0 && n < maxInflight {
			p.Inflight[t] = int(n)
		}
	}
	again, ok := slot.owner() // o still has the slot, so what was read is its own
	return p, ok && again.generation == o.generation
}

// Entry represents another process among those that share a device.
type Entry struct {
	state *State
	owner owner
}

// Announce makes an entry for another process. It lasts until Close or the end of this process; a detached one until
// the end of the other. The error is ErrNoProcess or ErrFull, or the reason why nothing is shared.
func (s *State) Announce(pid int, p iopolicy.Policy) (*Entry, error) {
	started, err := startOf(pid)
	if err != nil {
		return nil, fmt.Errorf("announce process %d: %w", pid, err)
	}
	e := &Entry{s, owner{pid: int64(pid), started: started, kind: announced, policy: p}}
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
			e.state.with(func(m *mapping) { m.slots[i].setPolicy(p) })
		}
	}
}

// Detach keeps the entry for the lifetime of the process that it names. It cannot be changed or closed afterwards.
func (e *Entry) Detach() { e.end((*mapping).leave) }

// Close removes the entry.
func (e *Entry) Close() { e.end((*mapping).give) }

func (e *Entry) end(how func(*mapping, int)) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if i, ok := e.state.entries[e]; ok && i >= 0 {
		e.state.with(func(m *mapping) { how(m, i) })
	}
	delete(e.state.entries, e)
}

// with calls f with the mapping. The caller has s.mu.
func (s *State) with(f func(m *mapping)) {
	m := s.now.Load()
	defer runtime.KeepAlive(m)
	f(m)
}
