package shared

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// aliveCache is for how long the liveness of a slot is cached.
const aliveCache = int64(10 * time.Millisecond)

// mapping is one file in memory, or memory of this process alone. A cleanup unmaps it once the garbage collector finds
// no user, so a late call never touches unmapped memory: a caller that uses its words keeps it alive until then.
type mapping struct {
	*region
	head     [headSize]byte // what the file begins with
	fd       int            // -1: memory of this process alone
	ownSlot  atomic.Int32   // index of the slot of this gate; -1: none
	held     atomic.Uint64  // bits of the slots that this mapping holds the locks of
	liveness [slots]look
}

// look is the cached liveness of a slot.
type look struct {
	until      atomic.Int64
	generation atomic.Uint64 // << 1, and whether it was alive
}

// alone returns a mapping that is not shared.
func alone() *mapping {
	m := &mapping{region: &region{}, fd: -1}
	m.ownSlot.Store(-1)
	return m
}

// take assigns a free or dead slot to o; -1: all are taken.
func (m *mapping) take(o owner) int {
	if m.fd < 0 || !m.lockAll() {
		return -1
	}
	defer m.unlockAll()
	for i := range m.slots {
		if m.held.Load()>>i&1 != 0 || !m.lockSlot(i) {
			continue
		}
		if old, ok := m.slots[i].owner(); ok && m.stays(old) {
			m.unlockSlot(i)
			continue
		}
		m.slots[i].write(o)
		m.used.Or(1 << i)
		m.held.Or(1 << i)
		return i
	}
	return -1
}

// give frees slot i.
func (m *mapping) give(i int) {
	if i < 0 {
		return
	}
	m.used.And(^(uint64(1) << i))
	m.slots[i].write(owner{})
	m.held.And(^(uint64(1) << i))
	m.unlockSlot(i)
}

// leave keeps slot i for the lifetime of the process that it names.
func (m *mapping) leave(i int) {
	p := &m.slots[i]
	p.kind.Store(bound | p.kind.Load()&^255)
	m.held.And(^(uint64(1) << i))
	m.unlockSlot(i)
}

// alive reports whether the owner of slot i is alive, as of some milliseconds ago.
func (m *mapping) alive(i int, o owner, now int64) bool {
	if m.held.Load()>>i&1 != 0 {
		return true
	}
	l := &m.liveness[i]
	if seen := l.generation.Load(); now < l.until.Load() && seen>>1 == o.generation {
		return seen&1 != 0
	}
	seen := o.generation << 1
	if m.lives(i, o) {
		seen |= 1
	}
	l.generation.Store(seen)
	l.until.Store(now + aliveCache)
	return seen&1 != 0
}

// others calls visit for every slot of another process.
func (m *mapping) others(visit func(i int, p *slot)) {
	for left := m.used.Load() &^ m.held.Load(); left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		visit(i, &m.slots[i])
	}
}
