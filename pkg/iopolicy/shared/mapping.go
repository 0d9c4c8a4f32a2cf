package shared

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// believed is for how long a slot that was found alive, or dead, is taken to be so.
const believed = int64(10 * time.Millisecond)

// mapping is one file in memory, or memory of this process alone. It is given back to the system when nobody can be using
// it any more, which the garbage collector knows best: then no call, however late, touches memory that is not there.
type mapping struct {
	*region
	head  [headSize]byte // what the file begins with
	fd    int            // -1: memory of this process alone
	mine  atomic.Int32   // index of the slot of this gate; -1: none
	held  atomic.Uint64  // bits of the slots that this mapping holds the locks of
	looks [places]look
}

// look is what was found of a slot.
type look struct {
	until      atomic.Int64
	generation atomic.Uint64 // << 1, and whether it was alive
}

// alone returns a mapping that nobody shares.
func alone() *mapping {
	m := &mapping{region: &region{}, fd: -1}
	m.mine.Store(-1)
	return m
}

// take finds a free slot, or one of the dead, and gives it to o; -1: all are taken.
func (m *mapping) take(o owner) int {
	if m.fd < 0 || !m.lockAll() {
		return -1
	}
	defer m.unlockAll()
	for i := range m.places {
		if m.held.Load()>>i&1 != 0 || !m.lockPlace(i) {
			continue
		}
		if old, ok := m.places[i].owner(); ok && m.stays(old) {
			m.unlockPlace(i)
			continue
		}
		m.places[i].write(o)
		m.used.Or(1 << i)
		m.held.Or(1 << i)
		return i
	}
	return -1
}

// give gives slot i back.
func (m *mapping) give(i int) {
	if i < 0 {
		return
	}
	m.used.And(^(uint64(1) << i))
	m.places[i].write(owner{})
	m.held.And(^(uint64(1) << i))
	m.unlockPlace(i)
}

// leave lets slot i live as long as the process it names.
func (m *mapping) leave(i int) {
	p := &m.places[i]
	p.manner.Store(bound | p.manner.Load()&^255)
	m.held.And(^(uint64(1) << i))
	m.unlockPlace(i)
}

// alive reports whether who has slot i still lives, as of some milliseconds ago.
func (m *mapping) alive(i int, o owner, now int64) bool {
	if m.held.Load()>>i&1 != 0 {
		return true
	}
	l := &m.looks[i]
	if seen := l.generation.Load(); now < l.until.Load() && seen>>1 == o.generation {
		return seen&1 != 0
	}
	seen := o.generation << 1
	if m.lives(i, o) {
		seen |= 1
	}
	l.generation.Store(seen)
	l.until.Store(now + believed)
	return seen&1 != 0
}

// others calls visit for every slot that was given to somebody else.
func (m *mapping) others(visit func(i int, p *place)) {
	for left := m.used.Load() &^ m.held.Load(); left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		visit(i, &m.places[i])
	}
}
