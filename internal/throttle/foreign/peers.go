package foreign

import (
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

const (
	// descendantInterval is the least time between two searches for descendants of peers, and suspectInterval that after a
	// foreign read, which may be a new descendant's.
	descendantInterval, suspectInterval = 250 * time.Millisecond, 20 * time.Millisecond
	// churn is for how long I/O of a peer may be in flight after it came or ended.
	churn = 100 * time.Millisecond
	// maxDescendants bounds the counted descendants of one peer.
	maxDescendants = 256
)

// peerProcesses counts the I/O of cooperating processes and their descendants. It is not safe for concurrent use.
type peerProcesses struct {
	list      func() []shared.Process
	processes proc
	peers     map[int]*peerProcess
	round     uint64
	counted   time.Time // last search for descendants
	changed   time.Time
	gone      iopolicy.Bytes // of ended peers
	last      diskwatch.PeerIO
}

// peerProcess is one peer with its descendants.
type peerProcess struct {
	peer        shared.Process
	round       uint64
	away        uint64 // what the peer had read elsewhere when first seen
	self        countedProcess
	descendants map[int]*countedProcess
	gone        iopolicy.Bytes // of ended descendants
	sum         iopolicy.Bytes
	wrote       time.Time
}

// countedProcess is one process of a peer.
type countedProcess struct {
	*other
	base, now iopolicy.Bytes
}

// update returns the I/O since the process was first seen; !ok: it has ended.
func (r *countedProcess) update() (since iopolicy.Bytes, ok bool) {
	read, dirtied, ok := r.bytes()
	if ok {
		r.now = iopolicy.Bytes{Read: max(read, r.now.Read), Written: max(dirtied, r.now.Written)}
	}
	return iopolicy.Bytes{Read: r.now.Read - r.base.Read, Written: r.now.Written - r.base.Written}, ok
}

var _ diskwatch.Peers = (*peerProcesses)(nil)

// newPeerProcesses watches processes of this machine.
func newPeerProcesses(list func() []shared.Process) *peerProcesses {
	return &peerProcesses{list: list, processes: host}
}

// Poll implements diskwatch.Peers.
func (c *peerProcesses) Poll(now time.Time) diskwatch.PeerIO { return c.poll(c.list(), now) }

// poll returns the I/O of the peers so far.
func (c *peerProcesses) poll(peers []shared.Process, now time.Time) diskwatch.PeerIO {
	c.round++
	for _, p := range peers {
		c.add(p, now)
	}
	if now.Sub(c.counted) >= descendantInterval {
		c.count(now)
	}
	return c.sum(now)
}

// Recount is Poll with a search for new descendants.
func (c *peerProcesses) Recount(now time.Time) diskwatch.PeerIO {
	if now.Sub(c.counted) < suspectInterval {
		return c.last
	}
	rose := c.last.Rose
	c.count(now)
	k := c.sum(now)
	for t := range rose {
		k.Rose[t] = k.Rose[t] || rose[t]
	}
	c.last = k
	return k
}

// add starts to count a peer, or marks a known one as present.
func (c *peerProcesses) add(p shared.Process, now time.Time) {
	m := c.peers[p.PID]
	if m != nil && m.peer.Started != p.Started {
		c.remove(p.PID, m, now)
		m = nil
	}
	if m == nil {
		other, err := c.processes.open(p.PID, uint64(p.Started))
		if err != nil { // ended, or of another user: its I/O counts as foreign
			return
		}
		m = &peerProcess{away: p.Elsewhere.Read, self: countedProcess{other: other}, descendants: map[int]*countedProcess{}}
		m.self.update()
		m.self.base = m.self.now
		if c.peers == nil {
			c.peers = map[int]*peerProcess{}
		}
		c.peers[p.PID] = m
		m.peer = p
		c.addDescendants(p.PID, m, false)
		c.changed = now
	}
	m.peer, m.round = p, c.round
}

// count searches for descendants.
func (c *peerProcesses) count(now time.Time) {
	c.counted = now
	for pid, m := range c.peers {
		c.addDescendants(pid, m, true)
	}
}

// addDescendants adds the descendants of a peer. born: they started under observation, so all their I/O counts.
func (c *peerProcesses) addDescendants(pid int, m *peerProcess, born bool) {
	queue := c.processes.children(pid, nil)
	for len(queue) > 0 && len(m.descendants) < maxDescendants {
		child := queue[0]
		queue = c.processes.children(child, queue[1:])
		if m.descendants[child] != nil || c.peers[child] != nil {
			continue
		}
		other, err := c.processes.open(child, 0)
		if err != nil {
			continue
		}
		r := &countedProcess{other: other}
		r.update()
		if !born {
			r.base = r.now
		}
		m.descendants[child] = r
	}
}

// remove stops counting a peer. Its I/O stays in the sum.
func (c *peerProcesses) remove(pid int, m *peerProcess, now time.Time) {
	c.gone.Read += m.sum.Read
	c.gone.Written += m.sum.Written
	m.self.close()
	for _, r := range m.descendants {
		r.close()
	}
	delete(c.peers, pid)
	c.changed = now
}

// sum reads all counters, descendants before their parents: one that ends in between is counted twice for a moment,
// which hides foreign I/O; missing it would report own I/O as foreign.
func (c *peerProcesses) sum(now time.Time) diskwatch.PeerIO {
	k := diskwatch.PeerIO{Read: c.gone.Read, Dirtied: c.gone.Written}
	for pid, m := range c.peers {
		var b iopolicy.Bytes
		for child, r := range m.descendants {
			did, ok := r.update()
			if !ok {
				m.gone.Read += did.Read
				m.gone.Written += did.Written
				r.close()
				delete(m.descendants, child)
				c.changed = now
				continue
			}
			b.Read += did.Read
			b.Written += did.Written
		}
		did, ok := m.self.update()
		b.Read += did.Read + m.gone.Read
		b.Written += did.Written + m.gone.Written
		b.Read = less(b.Read, less(m.peer.Elsewhere.Read, m.away))
		m.note(b, now, &k)
		k.Read += m.sum.Read
		k.Dirtied += m.sum.Written
		if m.round == c.round && ok {
			k.Alive++
		} else {
			c.remove(pid, m, now)
		}
	}
	k.Changed = !c.changed.IsZero() && now.Sub(c.changed) < churn
	c.last = k
	return k
}

// note records the total I/O of m.
func (m *peerProcess) note(b iopolicy.Bytes, now time.Time, k *diskwatch.PeerIO) {
	if b.Written > m.sum.Written {
		m.wrote = now
	}
	if (b.Read > m.sum.Read || b.Written > m.sum.Written) && m.peer.Policy != iopolicy.Passive {
		k.Rose[m.peer.Tier&(iopolicy.Tiers-1)] = true
	}
	m.sum = iopolicy.Bytes{Read: max(b.Read, m.sum.Read), Written: max(b.Written, m.sum.Written)}
}

// WriterTier returns the tier to which unattributed writes count: that of the best peer that has written lately, else
// tier 0 for foreign I/O. known is false if only passive peers have written.
func (c *peerProcesses) WriterTier(now time.Time) (tier iopolicy.Tier, known bool) {
	tier, passive := iopolicy.Tiers, false
	for _, m := range c.peers {
		if m.wrote.IsZero() || now.Sub(m.wrote) > diskwatch.DirtyExpiry {
			continue
		}
		if m.peer.Policy == iopolicy.Passive {
			passive = true
		} else {
			tier = min(tier, m.peer.Tier)
		}
	}
	if tier < iopolicy.Tiers {
		return tier, true
	}
	return 0, !passive
}

// Close stops counting all peers.
func (c *peerProcesses) Close() {
	for pid, m := range c.peers {
		c.remove(pid, m, time.Time{})
	}
}
