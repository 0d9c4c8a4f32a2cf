package pressure

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/pressure/others"
)

// The allowance for metadata that the kernel writes after own changes, without a flush: so much per interval with own
// writes or per own operation that touches a file, and a part of what was written, to a limit.
const (
	perWriting = 16 << 10
	perTouch   = 512
	partOf     = 64
	allowed    = 1 << 20
	block      = 4096 // the least that anybody writes of a file
	readsPer   = 512  // bytes written, for one that threads of btrfs read: 64 KiB for 128 MiB, and reserve
)

// writes tells others' writes from the own that come late.
type writes struct {
	habit  habit
	copies uint64 // of what is written, at most: one per disk below

	base    glance // up to here everything was judged
	pending uint64 // bytes that we have made dirty and the device may not have written yet, at most
	dropped uint64 // cancelled so far
	ages    [9]age // of what was made dirty, oldest first, some 5 s apart

	own       time.Time // the last own change
	oldest    time.Time // own change that may not have been committed
	allowance uint64
	commit    commit
	readable  uint64 // bytes that the kernel's threads may still read for us
	refilled  time.Time
	flushed   time.Time // the last flush without a write
}

// age tells how much had been made dirty at a time.
type age struct {
	at      time.Time
	dirtied uint64
}

// commit is one of the file system's own, going on or the last one.
type commit struct {
	began          time.Time
	bytes, flushes uint64
}

func newWrites(fs string, disks int) writes {
	return writes{habit: habitOf(fs), copies: uint64(disks)}
}

// begin makes g the base of all later looks.
func (w *writes) begin(g *glance, opt Options) {
	*w = writes{habit: w.habit, copies: w.copies, base: *g, dropped: w.dropped}
	for i := range w.ages {
		w.ages[i] = age{g.At, w.dirtied(g, opt)}
	}
}

// dirtied is what we and our peers have made dirty for this device so far, at most.
func (w *writes) dirtied(g *glance, opt Options) uint64 {
	own := g.own.dirtied
	if opt.Elsewhere != nil {
		own = g.Own.Written
	}
	return (own + g.kin.Dirtied) * w.copies
}

// recent tells whether own writes may still come.
func (w *writes) recent(now time.Time) bool {
	return !w.own.IsZero() && now.Sub(w.own) < w.habit.memory
}

// mayWrite tells whether requests that are on the device now may be our late writes.
func (w *writes) mayWrite(g *glance) bool {
	return w.pending > 0 || w.recent(g.At) || g.Wrote != w.base.Wrote
}

// skip accepts everything up to g.
func (w *writes) skip(g *glance, opt Options) {
	w.advance(g, opt)
	w.base = *g
}

// judge returns how many bytes others have written since the last judgement, and whether they wrote or flushed at all.
func (w *writes) judge(g *glance, opt Options, cancelled func() uint64) (by uint64, foreign bool) {
	did, flushed := g.dev.written-w.base.dev.written, g.dev.flushes-w.base.dev.flushes
	wrote := g.Writing > 0 || w.base.Writing > 0 || g.Wrote != w.base.Wrote
	bracket := wrote
	if opt.Syncs != nil {
		bracket = g.syncing > 0 || w.base.syncing > 0 || g.synced != w.base.synced
	}
	w.advance(g, opt)
	w.base = *g
	if did > 0 && w.pending > 0 && cancelled != nil {
		now := cancelled()
		w.pending = less(w.pending, (now-min(now, w.dropped))*w.copies)
		w.dropped = now
	}
	excess := less(did, w.pending)
	w.pending = less(w.pending, did)
	if bracket {
		if flushed > 0 {
			w.committed(g, opt)
		}
		return 0, false
	}
	if excess == 0 && flushed == 0 || w.aside(g.At, did, flushed) || w.tolerates(g.At, excess, flushed) {
		return 0, false
	}
	if flushed > 0 {
		w.committed(g, opt)
	}
	return excess, true
}

// advance books the own changes up to g.
func (w *writes) advance(g *glance, opt Options) {
	total := w.dirtied(g, opt)
	rise := less(total, w.dirtied(&w.base, opt))
	wrote := g.Wrote != w.base.Wrote || g.Writing > 0
	touched := opt.Touches && g.Begun != w.base.Begun
	w.pending += rise
	if !w.oldest.IsZero() && g.At.Sub(w.oldest) > w.habit.until { // it was committed within an own flush
		w.oldest = time.Time{}
	}
	if wrote || touched || rise > 0 {
		w.own = g.At
		if w.oldest.IsZero() {
			w.oldest = w.base.At
		}
		w.readable = min(w.readable+rise/readsPer, w.habit.reads)
		if g.At.Sub(w.refilled) >= w.habit.every {
			w.readable, w.refilled = max(w.readable, w.habit.reads/4), g.At
		}
		w.allowance += rise / partOf
		if wrote {
			w.allowance += perWriting
		}
		if touched {
			w.allowance += perTouch * (g.Begun - w.base.Begun)
		}
		w.allowance = min(w.allowance, allowed)
	}
	last := len(w.ages) - 1
	if g.At.Sub(w.ages[last].at) >= others.Expiry/time.Duration(last) {
		copy(w.ages[:], w.ages[1:])
		w.ages[last] = age{g.At, total}
	}
	if g.At.Sub(w.ages[0].at) >= others.Expiry {
		w.pending = min(w.pending, less(total, w.ages[0].dirtied))
	}
	if !w.recent(g.At) {
		w.oldest, w.allowance, w.readable = time.Time{}, 0, 0
	}
}

// committed notes that a flush ended: what was changed before is safe, if the file system works like that.
func (w *writes) committed(g *glance, opt Options) {
	if !w.habit.flushSettles {
		return
	}
	w.oldest = time.Time{}
	if g.Writing > 0 || g.syncing > 0 || opt.Touches && g.Inflight > 0 {
		w.oldest = g.At
	}
}

// aside tells whether so few bytes, less than a block, are the head of the log, or a flush without a write is one by which
// the file system makes sure of its metadata before the log forgets them, once in a while.
func (w *writes) aside(now time.Time, bytes, flushes uint64) bool {
	if !w.habit.covers || !w.recent(now) || bytes >= block || flushes > 2 {
		return false
	}
	if bytes > 0 {
		return true
	}
	if flushes > 1 || now.Sub(w.flushed) < w.habit.every {
		return false
	}
	w.flushed = now
	return true
}

// tolerates tells whether the file system may have written and flushed so much by itself, for us.
func (w *writes) tolerates(now time.Time, bytes, flushes uint64) bool {
	if !w.recent(now) {
		return false
	}
	h := &w.habit
	if !w.commit.began.IsZero() && now.Sub(w.commit.began) < h.commitLasting && w.fits(bytes, flushes) {
		return true
	}
	if flushes == 0 && bytes <= w.allowance {
		w.allowance -= bytes
		return true
	}
	due := !w.oldest.IsZero() && now.Sub(w.oldest) >= h.after && now.Sub(w.oldest) <= h.until
	if !due || !w.commit.began.IsZero() && now.Sub(w.commit.began) < h.every {
		return false
	}
	was := w.commit
	w.commit = commit{began: now}
	if !w.fits(bytes, flushes) {
		w.commit = was
		return false
	}
	w.oldest = time.Time{}
	return true
}

// fits adds to the commit that is going on, if that is not too much for one.
func (w *writes) fits(bytes, flushes uint64) bool {
	c := &w.commit
	if c.bytes+bytes > w.habit.bytes || c.flushes+flushes > w.habit.flushes {
		return false
	}
	c.bytes += bytes
	c.flushes += flushes
	return true
}

// readsAlong tells whether the kernel may have read so much by itself to write for us.
func (w *writes) readsAlong(g *glance, bytes uint64) bool {
	writing := g.Writing > 0 || g.Wrote != w.base.Wrote
	if w.copies > 1 && writing { // parity is read to be written
		return true
	}
	if !writing && !w.recent(g.At) || w.habit.reads == 0 {
		return false
	}
	if bytes > w.readable {
		return false
	}
	w.readable -= bytes
	return true
}
