package diskwatch

import (
	"time"
)

// The allowance for metadata that the kernel writes after own changes without a flush: a constant per interval with own
// writes and per own operation that touches a file, and a part of the bytes written, up to a limit.
const (
	perWriting = 16 << 10
	perTouch   = 512
	partOf     = 64
	allowed    = 1 << 20
	block      = 4096 // the smallest write to a file
	readsPer   = 512  // bytes written for each byte that btrfs threads read: measured 64 KiB for 128 MiB, with reserve
)

// lasting is how long a commit takes at most, from its first write to its last flush.
const lasting = time.Second

// DirtyExpiry is for how long a dirty page may stay unwritten: the kernel's default of 30 s, checked every 5 s, and the
// time of a commit.
const DirtyExpiry = 41 * time.Second

// writes distinguishes foreign writes from own late ones.
type writes struct {
	profile profile
	copies  uint64 // of each byte at most: one per disk below

	base    sample // everything up to it is attributed
	pending uint64 // own dirty bytes that the device may not have written yet, at most
	dropped uint64 // cancelled so far
	ages    [9]age // own dirty bytes, oldest first, some 5 s apart

	own       time.Time // the last own change
	oldest    time.Time // the oldest own change that may not be committed
	allowance uint64
	commit    commit
	readable  uint64 // bytes that kernel threads may still read for own writes
	refilled  time.Time
	flushed   time.Time // the last flush without a write
}

// age is the own dirty bytes at a time.
type age struct {
	at      time.Time
	dirtied uint64
}

// commit is the present or last commit of the file system.
type commit struct {
	began          time.Time
	bytes, flushes uint64
}

func newWrites(fs string, disks int) writes {
	return writes{profile: profileOf(fs), copies: uint64(disks)}
}

// begin starts again with g.
func (w *writes) begin(g *sample, opt Options) {
	*w = writes{profile: w.profile, copies: w.copies, base: *g, dropped: w.dropped}
	for i := range w.ages {
		w.ages[i] = age{g.At, w.dirtied(g, opt)}
	}
}

// dirtied returns the bytes that this process and its peers made dirty on this device so far, at most.
func (w *writes) dirtied(g *sample, opt Options) uint64 {
	own := g.own.Dirtied
	if opt.Elsewhere != nil {
		own = g.Own.Written
	}
	return (own + g.peers.Dirtied) * w.copies
}

// recent reports whether late own writes are possible.
func (w *writes) recent(now time.Time) bool {
	return !w.own.IsZero() && now.Sub(w.own) < w.profile.memory
}

// mayWrite reports whether requests in flight may be late own writes.
func (w *writes) mayWrite(g *sample) bool {
	return w.pending > 0 || w.recent(g.At) || g.Wrote != w.base.Wrote
}

// skip attributes everything up to g to this process.
func (w *writes) skip(g *sample, opt Options) {
	w.advance(g, opt)
	w.base = *g
}

// foreign returns the foreign bytes since the last call, and whether there were foreign writes or flushes.
func (w *writes) foreign(g *sample, opt Options, cancelled func() uint64) (by uint64, foreign bool) {
	did, flushed := g.dev.Written-w.base.dev.Written, g.dev.Flushes-w.base.dev.Flushes
	bracket := g.Syncing > 0 || w.base.Syncing > 0 || g.Synced != w.base.Synced
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
	if excess == 0 && flushed == 0 || w.logOnly(g.At, did, flushed) || w.fileSystemCommit(g.At, excess, flushed) {
		return 0, false
	}
	if flushed > 0 {
		w.committed(g, opt)
	}
	return excess, true
}

// advance records own changes up to g.
func (w *writes) advance(g *sample, opt Options) {
	total := w.dirtied(g, opt)
	rise := less(total, w.dirtied(&w.base, opt))
	wrote := g.Wrote != w.base.Wrote || g.Writing > 0
	touched := opt.Touches && g.Begun != w.base.Begun
	w.pending += rise
	if !w.oldest.IsZero() && g.At.Sub(w.oldest) > w.profile.until { // an own flush committed it
		w.oldest = time.Time{}
	}
	if wrote || touched || rise > 0 {
		w.own = g.At
		if w.oldest.IsZero() {
			w.oldest = w.base.At
		}
		w.readable = min(w.readable+rise/readsPer, w.profile.reads)
		if g.At.Sub(w.refilled) >= w.profile.every {
			w.readable, w.refilled = max(w.readable, w.profile.reads/4), g.At
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
	if g.At.Sub(w.ages[last].at) >= DirtyExpiry/time.Duration(last) {
		copy(w.ages[:], w.ages[1:])
		w.ages[last] = age{g.At, total}
	}
	if g.At.Sub(w.ages[0].at) >= DirtyExpiry {
		w.pending = min(w.pending, less(total, w.ages[0].dirtied))
	}
	if !w.recent(g.At) {
		w.oldest, w.allowance, w.readable = time.Time{}, 0, 0
	}
}

// committed records the end of a flush, which on some file systems commits all earlier changes.
func (w *writes) committed(g *sample, opt Options) {
	if !w.profile.flushSettles {
		return
	}
	w.oldest = time.Time{}
	if g.Writing > 0 || g.Syncing > 0 || opt.Touches && g.Inflight > 0 {
		w.oldest = g.At
	}
}

// logOnly reports whether less than a block is the head of the log, or a flush without a write is a checkpoint of it.
func (w *writes) logOnly(now time.Time, bytes, flushes uint64) bool {
	if !w.recent(now) || bytes >= block || flushes > 2 {
		return false
	}
	if bytes > 0 {
		return true
	}
	if flushes > 1 || now.Sub(w.flushed) < w.profile.every {
		return false
	}
	w.flushed = now
	return true
}

// fileSystemCommit reports whether the file system may have written and flushed so much by itself for own changes.
func (w *writes) fileSystemCommit(now time.Time, bytes, flushes uint64) bool {
	if !w.recent(now) {
		return false
	}
	h := &w.profile
	if !w.commit.began.IsZero() && now.Sub(w.commit.began) < lasting && w.fits(bytes, flushes) {
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

// fits adds to the present commit, unless that exceeds the size of one.
func (w *writes) fits(bytes, flushes uint64) bool {
	c := &w.commit
	if c.bytes+bytes > w.profile.bytes || c.flushes+flushes > w.profile.flushes {
		return false
	}
	c.bytes += bytes
	c.flushes += flushes
	return true
}

// readsAlong reports whether the kernel may have read so much by itself for own writes.
func (w *writes) readsAlong(g *sample, bytes uint64) bool {
	writing := g.Writing > 0 || g.Wrote != w.base.Wrote
	if w.copies > 1 && writing { // RAID reads parity to write
		return true
	}
	if !writing && !w.recent(g.At) || w.profile.reads == 0 {
		return false
	}
	if bytes > w.readable {
		return false
	}
	w.readable -= bytes
	return true
}
