package local

import (
	"slices"
	"sync"
)

// acquaintances is how many packs are remembered: more than are read at the same time.
const acquaintances = 64

// acquaintance remembers of the packs that were read last whether they were in memory when they were first met. Later,
// what is in memory of them is what the system has read ahead of us.
type acquaintance struct {
	mu   sync.Mutex
	was  map[string]bool // cold, by ID
	last []string        // the oldest first
}

// cold reports whether a pack was not in memory when it was first met, which look finds out.
func (a *acquaintance) cold(id string, look func() bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cold, known := a.was[id]; known {
		return cold
	}
	if a.was == nil {
		a.was = make(map[string]bool)
	}
	if len(a.last) == acquaintances {
		delete(a.was, a.last[0])
		a.last = slices.Delete(a.last, 0, 1)
	}
	a.was[id] = look()
	a.last = append(a.last, id)
	return a.was[id]
}
