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

// Announce joins for another process, which has no gate and yields to none: Options.Policy is its policy. The entry
// lasts until Close or the end of this process; after Detach until the end of the other. The error is ErrNoProcess or
// ErrFull, or one of Attach.
func Announce(dir, key string, pid int, opt Options) (*State, error) {
	s, err := join(dir, key, opt, pid, announced)
	if err == nil && s.now.Load().ownSlot.Load() < 0 {
		s.Close()
		err = ErrFull
	}
	if err != nil {
		return nil, fmt.Errorf("announce process %d: %w", pid, err)
	}
	return s, nil
}

// Detach closes s, and keeps its entry for the lifetime of the process that it names.
func (s *State) Detach() {
	s.mu.Lock()
	m := s.now.Load()
	if i := m.ownSlot.Swap(-1); i >= 0 {
		m.leave(int(i))
	}
	runtime.KeepAlive(m)
	s.mu.Unlock()
	s.Close()
}
