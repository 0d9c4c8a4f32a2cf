package model

import "math/bits"

// Steps of a writer. Each is one operation on the target.
const (
	wIdle = iota
	wPutLease
	wReadMarks
	wLookForPrunes
	wAcknowledge
	wSync
	wChoose
	wRenew
	wRenewed
	wRecheck
	wPublish
	wConfirm
	wLook
	wRecheckPublished
	wTakeBack
	wEnd
	wEnded
	wDead
)

// succ collects the states that follow one. who is the letter of a writer or a prune, or '-'.
type succ func(who rune, what string, s state)

// writer visits what writer i may do next.
func (b *bounds) writer(s state, i int, next succ) {
	w := &s.w[i]
	id := rune('A' + i)
	if i == 1 && w.pc == wIdle && s.w[0].pc == wIdle {
		return // the same, under other names
	}
	if w.pc > wIdle && w.pc < wEnded && s.crashes < b.crashes {
		c := s
		c.w[i] = writer{pc: wDead}
		c.crashes++
		next(id, "dies", c)
		if w.pc == wPublish && b.late > 0 {
			c.w[i] = *w
			c.w[i].pc, c.pending[i], c.late = wDead, true, 0
			next(id, "dies, its snapshot is under way", c)
		}
	}
	switch w.pc {
	case wIdle, wPutLease:
		w.last = s.now
		s.putLease(b, i, 0)
		w.pc = wReadMarks
		next(id, "puts lease", s)
	case wReadMarks:
		b.readEarly(s, i, next)
		b.readMarks(s, i, next)
	case wLookForPrunes:
		b.lookForPrunes(s, i, next)
	case wAcknowledge:
		if s.renew(b, i) {
			w.pc = wSync
		}
		next(id, "puts lease with marks", s)
	case wSync:
		if w.pc = wChoose; w.early&earlyIndex == 0 {
			w.sees = s.index & s.packs
		}
		next(id, "reads the index", s)
	case wChoose:
		b.choose(s, i, next)
	default:
		b.publish(s, i, next)
	}
}

// putLease writes a lease under a name. It notices a lease that was silent for too long.
func (s *state) putLease(b *bounds, i int, name uint8) {
	w, l := &s.w[i], &s.leases[i]
	if b.expire && s.now-w.last > expiry {
		w.gaps = true
	}
	l.there |= 1 << name
	l.fences &^= 1 << name
	l.at[name], l.acknowledged[name] = s.now, w.marks
	w.last, w.name = s.now, name
}

// renew takes the next name. If that is fenced, the writer takes the one after it with its next step. A writer that has
// no name left dies.
func (s *state) renew(b *bounds, i int) bool {
	w, l := &s.w[i], &s.leases[i]
	name := w.name + 1
	if name == names {
		w.pc = wDead
		return false
	}
	if b.claim && l.fences&(1<<name) != 0 {
		w.gaps, w.name = true, name
		return false
	}
	s.putLease(b, i, name)
	return true
}

// dropLease removes a lease or a fence.
func (s *state) dropLease(i int, name uint8) {
	l := &s.leases[i]
	l.there &^= 1 << name
	l.fences &^= 1 << name
	l.at[name], l.acknowledged[name] = 0, 0
}

// dropLeases removes all names of a writer below one.
func (s *state) dropLeases(i int, below uint8) {
	for name := range below {
		s.dropLease(i, name)
	}
}

// unread visits the sets of listed marks that one reader may find unreadable.
func (b *bounds) unread(s *state, listed uint8, visit func(unread, torn uint8)) {
	for unread := range uint8(1 << len(s.marks)) {
		if torn := s.torn + uint8(bits.OnesCount8(unread)); unread&^listed == 0 && (unread == 0 || torn <= b.torn) {
			visit(unread, torn)
		}
	}
}

// readEarly lets a writer read the index and the snapshots before the marks: where listings do not lag, it sends all
// these requests at once.
func (b *bounds) readEarly(s state, i int, next succ) {
	if !b.early {
		return
	}
	id := rune('A' + i)
	if n := s; n.w[i].early&earlyIndex == 0 {
		n.w[i].early |= earlyIndex
		n.w[i].sees = n.index & n.packs
		next(id, "reads the index before the marks", n)
	}
	if n := s; b.parents && n.w[i].early&earlySnaps == 0 {
		n.w[i].early |= earlySnaps
		n.w[i].snaps = n.view().snaps
		next(id, "lists the snapshots before the marks", n)
	}
}

func (b *bounds) readMarks(s state, i int, next succ) {
	id := rune('A' + i)
	for _, v := range b.views(&s) {
		listed := v.marks & s.view().marks
		b.unread(&s, listed, func(unread, torn uint8) {
			n := s
			w := &n.w[i]
			n.torn = torn
			for m := range n.marks {
				switch bit := uint8(1 << m); {
				case unread&bit != 0 && !b.unlisted:
					w.marks |= bit // its packs are not known
				case listed&^unread&bit != 0:
					w.marks |= bit
					w.packs |= n.marks[m].packs
				}
			}
			if unread != 0 {
				w.pc = wLookForPrunes
				next(id, "cannot read a mark", n)
				return
			}
			w.pc = w.afterMarks()
			next(id, "reads marks", n)
		})
	}
}

func (w *writer) afterMarks() uint8 {
	if w.marks != 0 {
		return wAcknowledge
	}
	return wSync
}

// lookForPrunes ends a writer that could not read a mark while a prune may act upon it.
func (b *bounds) lookForPrunes(s state, i int, next succ) {
	for _, v := range b.views(&s) {
		n := s
		w := &n.w[i]
		w.pc = w.afterMarks()
		for p := range n.busy {
			if b.idle && v.busy&(1<<p) != 0 && n.now-n.busyAt[p] <= dead {
				w.pc = wEnd
			}
		}
		next(rune('A'+i), "looks for prunes", n)
	}
}

// choose lets a writer take the blob over from a parent, find it in a pack of its index, or store it.
func (b *bounds) choose(s state, i int, next succ) {
	id := rune('A' + i)
	if b.parents {
		for _, v := range b.views(&s) {
			listed := v.snaps
			if s.w[i].early&earlySnaps != 0 {
				listed = s.w[i].snaps
			}
			for p := range s.snaps {
				if listed&(1<<p) == 0 || !b.reliable(&s, i, p) {
					continue
				}
				n := s
				n.w[i].pc = wRenew
				next(id, "takes data over from snapshot "+"012"[p:p+1], n)
			}
		}
	}
	w := &s.w[i]
	w.pc = wRenew
	if found := w.sees &^ w.packs & s.packs; found != 0 {
		next(id, "finds the blob in a pack", s)
		return
	}
	own := uint8(packWriter << i)
	s.packs, s.index = s.packs|own, s.index|own
	next(id, "stores the blob", s)
}

// reliable is what a writer requires of a snapshot before it reuses its data.
func (b *bounds) reliable(s *state, i, p int) bool {
	sn := &s.snaps[p]
	if b.gap && sn.late {
		return false
	}
	for m := range s.marks {
		bit := uint8(1 << m)
		if s.w[i].marks&bit != 0 && s.marks[m].looked&(1<<p) == 0 && sn.acknowledged&bit == 0 {
			return false
		}
	}
	return true
}

// publish is the end of a backup: renew the lease, put the snapshot, and see whether the lease was there all the
// time. A writer that was quick by its own clock, which may be wrong, does not renew the lease before. Afterwards it
// may look whether its next name is fenced, and remove its lease meanwhile, instead of renewing it.
func (b *bounds) publish(s state, i int, next succ) {
	w := &s.w[i]
	id := rune('A' + i)
	switch w.pc {
	case wRenew:
		if n := s; b.quick && !w.gaps {
			n.w[i].pc = wPublish
			next(id, "was quick", n)
		}
		if s.renew(b, i) {
			w.pc = wRenewed
		}
		next(id, "renews its lease", s)
	case wRenewed:
		s.dropLeases(i, w.name)
		if w.pc = wPublish; w.gaps {
			w.pc = wRecheck
		}
		next(id, "removes the lease before", s)
	case wRecheck:
		if w.gaps, w.pc = false, wPublish; s.lost(i) {
			w.pc = wEnd
		}
		next(id, "looks for all packs", s)
	case wPublish:
		s.put(b, i)
		w.pc = wConfirm
		next(id, "publishes", s)
	case wLook:
		s.look(b, i)
		next(id, "looks for a fence, without a lease", s)
	case wConfirm:
		if b.quick && b.confirm && !w.gaps && w.name+1 < names {
			n := s
			n.look(b, i)
			next(id, "looks for a fence", n)
			n = s
			n.dropLeases(i, w.name+1)
			n.w[i].pc = wLook
			next(id, "removes its lease", n)
		}
		if b.confirm && !s.renew(b, i) {
			next(id, "is fenced off", s)
			return
		}
		if w.gaps || !b.confirm && s.snaps[1+i].late {
			w.pc = wRecheckPublished
			next(id, "finds that it was taken for dead", s)
			return
		}
		w.pc = wEnd
		s.snaps[1+i].unsure = false
		next(id, "confirms", s)
	case wRecheckPublished:
		if w.pc = wEnd; s.lost(i) {
			w.pc = wTakeBack
		} else {
			s.snaps[1+i].unsure = false
		}
		next(id, "looks for all packs again", s)
	case wTakeBack:
		s.snaps[1+i].there = false
		w.pc = wEnd
		next(id, "takes its snapshot back", s)
	case wEnd:
		s.dropLeases(i, names)
		s.w[i] = writer{pc: wEnded}
		next(id, "ends", s)
	}
}

// look asks whether the next name of a writer is fenced, and what time it is. If it is not, and the lease has not
// expired, the snapshot is confirmed. Otherwise the writer renews its lease.
func (s *state) look(b *bounds, i int) {
	w := &s.w[i]
	fenced := s.leases[i].fences&(1<<(w.name+1)) != 0
	if w.pc = wEnd; fenced || b.expire && s.now-w.last > expiry {
		w.pc, w.gaps = wConfirm, true
		return
	}
	s.snaps[1+i].unsure = false
}

// put makes the snapshot of a writer appear.
func (s *state) put(b *bounds, i int) {
	if gap := s.now - s.w[i].last; gap > expiry/2 || gap < 0 {
		s.snaps[1+i].late = true
	}
	s.snaps[1+i].there, s.snaps[1+i].acknowledged, s.snaps[1+i].unsure = true, s.w[i].marks, true
}

// lost reports whether no pack of a writer's index is left on which it may rely. A mark that came later counts as well.
func (s *state) lost(i int) bool {
	doomed := s.w[i].packs
	for m := range s.marks {
		if s.marks[m].there {
			doomed |= s.marks[m].packs
		}
	}
	return s.packs&(s.w[i].sees|packWriter<<i)&^doomed == 0
}
