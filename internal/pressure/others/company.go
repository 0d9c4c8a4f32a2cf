package others

import (
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Peer is a cooperating process, which has a gate of its own for the same device.
type Peer struct {
	PID int
	// Start is the time of its start as in field 22 of /proc/PID/stat; 0: not known, and a process that got the same
	// number later is taken for it.
	Start     uint64
	Tier      iopolicy.Tier
	Passive   bool   // opens no window for anybody
	Elsewhere uint64 // bytes that it has proven to have read from other devices
}

const (
	// census is how often the descendants of the peers are looked for, and suspected how often if somebody has read.
	census, suspected = 250 * time.Millisecond, 20 * time.Millisecond
	// unsettled is how long after a peer came or went what it had asked for may still be on its way.
	unsettled = 100 * time.Millisecond
	// Expiry is how long a dirty page can wait to be written: the kernel's default of 30 s, looked for every 5 s, and as
	// much again as a commit needs.
	Expiry = 41 * time.Second
	// crowd is how many descendants of one peer are counted at most.
	crowd = 256
)

// procs gives access to other processes.
type procs interface {
	// open binds to a process, whatever gets its number later. A start of 0 takes any.
	open(pid int, start uint64) (process, error)
	// children appends the processes that pid has started and not yet waited for.
	children(pid int, to []int) []int
}

// process is one other process.
type process interface {
	// bytes returns what it and its ended children have read and made dirty; !ok: it has ended.
	bytes() (read, dirtied uint64, ok bool)
	close()
}

// Sum is what the peers have done.
type Sum struct {
	Read, Dirtied uint64               // bytes since each was first seen; never less than before
	Rose          [iopolicy.Tiers]bool // peers of the tier have read or made dirty since the last look
	Alive         int
	Changed       bool // one has come or gone lately
}

// Company is the cooperating processes and their descendants. It is not safe for concurrent use.
type Company struct {
	procs   procs
	members map[int]*member
	round   uint64
	counted time.Time // last census
	changed time.Time
	gone    iopolicy.Bytes // of those that have left
	last    Sum
}

// member is a peer.
type member struct {
	peer  Peer
	round uint64
	away  uint64 // Elsewhere when it was first seen
	self  relative
	kids  map[int]*relative
	gone  iopolicy.Bytes // of ended descendants
	sum   iopolicy.Bytes
	wrote time.Time
}

// relative is one process of a peer.
type relative struct {
	process
	base, now iopolicy.Bytes
}

// update reads the counters and returns what was done since the process was first seen; !ok: it has ended.
func (r *relative) update() (since iopolicy.Bytes, ok bool) {
	read, dirtied, ok := r.bytes()
	if ok {
		r.now = iopolicy.Bytes{Read: max(read, r.now.Read), Written: max(dirtied, r.now.Written)}
	}
	return iopolicy.Bytes{Read: r.now.Read - r.base.Read, Written: r.now.Written - r.base.Written}, ok
}

// NewCompany watches processes of this machine.
func NewCompany() *Company { return &Company{procs: hostProcs()} }

// Look returns what the peers have done until now.
func (c *Company) Look(peers []Peer, now time.Time) Sum {
	c.round++
	for _, p := range peers {
		c.greet(p, now)
	}
	if now.Sub(c.counted) >= census {
		c.count(now)
	}
	return c.sum(now)
}

// Again looks for new descendants at once.
func (c *Company) Again(now time.Time) Sum {
	if now.Sub(c.counted) < suspected {
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

// greet marks a peer as present.
func (c *Company) greet(p Peer, now time.Time) {
	m := c.members[p.PID]
	if m != nil && m.peer.Start != p.Start {
		c.dismiss(p.PID, m, now)
		m = nil
	}
	if m == nil {
		proc, err := c.procs.open(p.PID, p.Start)
		if err != nil { // it has ended, or belongs to somebody else and counts as others do
			return
		}
		m = &member{away: p.Elsewhere, self: relative{process: proc}, kids: map[int]*relative{}}
		m.self.update()
		m.self.base = m.self.now
		if c.members == nil {
			c.members = map[int]*member{}
		}
		c.members[p.PID] = m
		m.peer = p
		c.families(p.PID, m, false)
		c.changed = now
	}
	m.peer, m.round = p, c.round
}

// count looks for descendants.
func (c *Company) count(now time.Time) {
	c.counted = now
	for pid, m := range c.members {
		c.families(pid, m, true)
	}
}

// families finds the descendants of a member. What those have done that are born counts from their birth.
func (c *Company) families(pid int, m *member, born bool) {
	queue := c.procs.children(pid, nil)
	for len(queue) > 0 && len(m.kids) < crowd {
		kid := queue[0]
		queue = c.procs.children(kid, queue[1:])
		if m.kids[kid] != nil || c.members[kid] != nil {
			continue
		}
		proc, err := c.procs.open(kid, 0)
		if err != nil {
			continue
		}
		r := &relative{process: proc}
		r.update()
		if !born {
			r.base = r.now
		}
		m.kids[kid] = r
	}
}

// dismiss lets a member go. What it has done stays in the sum.
func (c *Company) dismiss(pid int, m *member, now time.Time) {
	c.gone.Read += m.sum.Read
	c.gone.Written += m.sum.Written
	m.self.close()
	for _, r := range m.kids {
		r.close()
	}
	delete(c.members, pid)
	c.changed = now
}

// sum reads all counters. Children come before their parents: a child that ends between is counted twice for a while,
// which hides somebody, and not left out, which would accuse somebody.
func (c *Company) sum(now time.Time) Sum {
	k := Sum{Read: c.gone.Read, Dirtied: c.gone.Written}
	for pid, m := range c.members {
		alive := m.round == c.round
		var b iopolicy.Bytes
		for kid, r := range m.kids {
			did, ok := r.update()
			if !ok {
				m.gone.Read += did.Read
				m.gone.Written += did.Written
				r.close()
				delete(m.kids, kid)
				c.changed = now
				continue
			}
			b.Read += did.Read
			b.Written += did.Written
		}
		did, ok := m.self.update()
		b.Read += did.Read + m.gone.Read
		b.Written += did.Written + m.gone.Written
		b.Read = less(b.Read, less(m.peer.Elsewhere, m.away))
		m.note(b, now, &k)
		if alive && ok {
			k.Alive++
			k.Read += m.sum.Read
			k.Dirtied += m.sum.Written
			continue
		}
		k.Read += m.sum.Read
		k.Dirtied += m.sum.Written
		c.dismiss(pid, m, now)
	}
	k.Changed = !c.changed.IsZero() && now.Sub(c.changed) < unsettled
	c.last = k
	return k
}

// note books what m has done in all.
func (m *member) note(b iopolicy.Bytes, now time.Time, k *Sum) {
	if b.Written > m.sum.Written {
		m.wrote = now
	}
	if (b.Read > m.sum.Read || b.Written > m.sum.Written) && !m.peer.Passive {
		k.Rose[m.peer.Tier&(iopolicy.Tiers-1)] = true
	}
	m.sum = iopolicy.Bytes{Read: max(b.Read, m.sum.Read), Written: max(b.Written, m.sum.Written)}
}

// Writer returns who is to be blamed for writes that nobody can attribute: the peer with the best tier that has written
// lately, or strangers, who are tier 0. Passive peers do not count.
func (c *Company) Writer(now time.Time) (tier iopolicy.Tier, counts bool) {
	tier, passive := iopolicy.Tiers, false
	for _, m := range c.members {
		if m.wrote.IsZero() || now.Sub(m.wrote) > Expiry {
			continue
		}
		if m.peer.Passive {
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

// Close lets all go.
func (c *Company) Close() {
	for pid, m := range c.members {
		c.dismiss(pid, m, time.Time{})
	}
}

// less returns a-b, or 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
