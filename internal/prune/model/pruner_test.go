package model

import "math/bits"

// Steps of a prune.
const (
	pIdle = iota
	pMarks
	pLeases
	pFence
	pSnapshots
	pPacks
	pUnname
	pRemove
	pUnnameLate
	pUnmark
	pPlan
	pClear
	pEnd
	pEnded
	pDead
)

func (b *bounds) pruner(s state, i int, next succ) {
	p := &s.p[i]
	id := rune('P' + i)
	if i == 1 && p.pc == pIdle && s.p[0].pc == pIdle {
		return // the same, under other names
	}
	if b.inTurn && i == 1 && p.pc == pIdle && s.p[0].pc < pEnded {
		return
	}
	if p.pc > pIdle && p.pc < pEnded && s.crashes < b.crashes {
		c := s
		c.p[i] = pruner{pc: pDead}
		c.crashes++
		next(id, "dies", c)
	}
	switch p.pc {
	case pIdle:
		s.busy[i], s.busyAt[i] = true, s.now
		p.pc = pMarks
		next(id, "puts lease", s)
	case pMarks:
		for _, v := range b.views(&s) {
			listed := v.marks & s.view().marks
			b.unread(&s, listed, func(unread, torn uint8) {
				n := s
				n.torn, n.p[i].marks, n.p[i].unread, n.p[i].pc = torn, listed&^unread, unread, pLeases
				if unread != 0 && n.p[i].second {
					n.p[i].pc = pEnd
				}
				next(id, "reads marks", n)
			})
		}
	case pLeases:
		b.readLeases(s, i, next)
	case pFence:
		b.fenceOff(s, i, next)
	case pSnapshots:
		b.survey(s, i, next)
	case pPlan:
		b.plan(s, i, next)
	case pClear:
		for w := range s.leases {
			for n := range uint8(names) {
				if !b.fence && s.leases[w].there&(1<<n) != 0 && s.now-s.leases[w].at[n] > dead {
					s.dropLease(w, n)
				}
			}
		}
		p.pc = pEnd
		next(id, "clears", s)
	case pEnd:
		s.busy[i] = false
		s.p[i] = pruner{pc: pEnded}
		next(id, "ends", s)
	default:
		b.sweep(s, i, next)
	}
}

// lostLease reports whether a prune finds that others may have taken it for dead.
func (b *bounds) lostLease(s *state, i int) bool { return b.hold && s.now-s.busyAt[i] > expiry }

// readLeases finds which marks are ripe: every writer that is not dead acknowledges them. What lies before a fence was
// dead. The first time, the prune ends if another one is running.
func (b *bounds) readLeases(s state, i int, next succ) {
	if !s.p[i].second && !s.p[i].again && s.busy[1-i] && s.now-s.busyAt[1-i] <= dead {
		s.p[i].pc = pEnd
		next(rune('P'+i), "finds another prune", s)
		return
	}
	for _, v := range b.views(&s) {
		n := s
		p := &n.p[i]
		if !p.again {
			p.ripe = p.marks
		}
		p.dead, p.tick = [2]uint8{}, n.tick
		for w := range n.leases {
			l := &n.leases[w]
			if v.fences[w] > v.leases[w] {
				continue
			}
			alive, acknowledged, found := false, uint8(0), uint8(0)
			for k := range names {
				bit := uint8(1 << k)
				if v.leases[w]&bit != 0 && l.there&bit == 0 && b.gone { // renewed under another name, or ended: undecidable
					alive, acknowledged, p.ripe = true, 0, 0
				}
				if v.leases[w]&l.there&bit == 0 {
					continue
				}
				found |= bit
				alive = alive || n.now-l.at[k] <= dead
				acknowledged |= l.acknowledged[k]
			}
			if alive && b.localDie && n.w[w].pc == wDead {
				alive = false
			}
			if alive {
				p.ripe &= acknowledged
			} else {
				p.dead[w] = found
			}
		}
		if b.settle && b.lag {
			for m := range n.marks {
				if n.marks[m].tick == n.tick {
					p.ripe &^= 1 << m
				}
			}
		}
		if p.pc = p.afterLeases(); b.fence {
			p.pc = pFence
		}
		next(rune('P'+i), "reads leases", n)
	}
}

// fenceOff takes the next name of a dead writer. If the writer has it, all leases are read again. In the end the prune
// removes fences that are old.
func (b *bounds) fenceOff(s state, i int, next succ) {
	p := &s.p[i]
	id := rune('P' + i)
	for w := range p.dead {
		if p.dead[w] == 0 {
			continue
		}
		name := uint8(bits.Len8(p.dead[w]))
		l := &s.leases[w]
		p.dead[w] = 0
		switch bit := uint8(1 << name); {
		case name == names:
			p.pc = pEnd
		case l.there&bit != 0 && b.yield:
			p.pc = pLeases
		case l.there&bit == 0:
			s.dropLeases(w, name)
			l.fences |= bit
			l.at[name] = s.now
		}
		next(id, [...]string{"fences off A", "fences off B"}[w], s)
		return
	}
	for w := range s.leases {
		l := &s.leases[w]
		if l.fences > l.there && (!b.lasting || s.now-l.at[bits.Len8(l.fences)-1] > kept) {
			s.dropLeases(w, names)
		}
	}
	p.pc = p.afterLeases()
	next(id, "removes old fences", s)
}

func (p *pruner) afterLeases() uint8 {
	if p.again {
		return pUnmark
	}
	return pSnapshots
}

// survey lists the snapshots, and then the packs. Where listings lag it waits before, so that it sees the snapshot of a
// writer that it missed. The second one carries over what the first one reached, and follows the new snapshots only.
func (b *bounds) survey(s state, i int, next succ) {
	if p := &s.p[i]; p.unread != 0 { // before the first survey, these marks go
		if b.lostLease(&s, i) {
			p.pc = pEnd
		}
		for m := range s.marks {
			if p.pc != pEnd && p.unread&(1<<m) != 0 {
				s.marks[m] = mark{}
			}
		}
		p.unread = 0
		next(rune('P'+i), "removes unreadable marks", s)
		return
	}
	if b.settle && b.lag && s.p[i].tick == s.tick && s.p[i].ripe != 0 {
		if s.tick < b.ticks {
			return
		}
		s.p[i].ripe = 0 // no time is left in this world
	}
	for _, v := range b.views(&s) {
		n := s
		p := &n.p[i]
		p.seen = v.snaps & n.view().snaps
		doomed := uint8(0)
		for m := range n.marks {
			if p.marks&(1<<m) != 0 && n.marks[m].there {
				doomed |= n.marks[m].packs
			}
		}
		reached := p.before | p.seen
		if p.second && !b.follow {
			reached = p.before
		}
		packs, index := n.packs, n.index
		if p.second && !b.fresh {
			packs, index = p.stale, p.stale
		}
		// The blob counts in one pack: preferably one that is not doomed, and of these the newest.
		at := packs & index &^ doomed
		if at == 0 {
			at = packs
		}
		if at == 0 && p.seen != 0 { // a snapshot cannot be followed: nothing is removed
			p.pc = pEnd
			next(rune('P'+i), "finds damage", n)
			continue
		}
		if p.live = 0; reached != 0 && at != 0 {
			p.live = 1 << (bits.Len8(at) - 1)
		}
		p.pc = pUnname
		next(rune('P'+i), "surveys", n)
	}
}

// sweep removes the packs of ripe marks in which nothing counts: from the index, then the packs, then the marks.
func (b *bounds) sweep(s state, i int, next succ) {
	p := &s.p[i]
	id := rune('P' + i)
	doomed := uint8(0)
	for m := range s.marks {
		if p.ripe&(1<<m) != 0 && s.marks[m].there {
			doomed |= s.marks[m].packs
		}
	}
	doomed &^= p.live
	if removes := p.pc == pUnname || p.pc == pRemove; removes && b.lostLease(&s, i) {
		p.pc = pEnd
		next(id, "finds that its lease was lost", s)
		return
	} else if removes && b.hold {
		s.busyAt[i] = s.now
	}
	switch p.pc {
	case pUnname:
		if b.tight {
			n := s
			n.packs &^= doomed
			n.p[i].pc = pUnnameLate
			next(id, "removes packs before it puts the new index", n)
		}
		s.index &^= doomed
		p.pc = pRemove
		next(id, "puts new index", s)
	case pRemove:
		s.packs &^= doomed
		p.lookAgain(b)
		next(id, "removes packs", s)
	case pUnnameLate:
		s.index &^= doomed
		p.lookAgain(b)
		next(id, "puts new index late", s)
	case pUnmark:
		p.again = false
		for m := range s.marks {
			if p.ripe&(1<<m) != 0 {
				s.marks[m] = mark{}
			}
		}
		s.index |= p.live & s.packs // a revived pack is in the index again
		if p.pc = pPlan; p.second {
			p.pc = pClear
		}
		next(id, "removes marks", s)
	}
}

// lookAgain makes the prune read the leases once more: a mark that a writer does not acknowledge stays, since that
// writer may have read the index before.
func (p *pruner) lookAgain(b *bounds) {
	if p.pc = pUnmark; b.early && b.reread && p.ripe != 0 {
		p.again, p.pc = true, pLeases
	}
}

// plan dooms what is not needed. It may also repack what is.
func (b *bounds) plan(s state, i int, next succ) {
	id := rune('P' + i)
	doomed := uint8(0)
	for m := range s.marks {
		if s.marks[m].there {
			doomed |= s.marks[m].packs
		}
	}
	p := &s.p[i]
	out := s.packs & s.index &^ doomed &^ p.live
	again := func(n state, packs uint8) {
		n.marks[i] = mark{there: true, packs: packs, looked: n.p[i].seen, tick: n.tick}
		second := pruner{pc: pMarks, second: true, before: n.p[i].seen}
		if !b.fresh {
			second.stale = n.packs & n.index
		}
		n.p[i] = second
		next(id, "puts mark", n)
	}
	if b.repack && p.live != 0 && p.live&doomed == 0 {
		n := s
		own := uint8(packPrune << i)
		n.packs, n.index = n.packs|own, n.index|own
		again(n, out&^own|p.live&^own)
	}
	if out != 0 {
		again(s, out)
		return
	}
	p.pc = pClear
	next(id, "has nothing to do", s)
}
