package diskwatch

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// interval is the least time between two polls unless Options say otherwise. A poll costs some 4 µs: less than 0.1 % of
// a processor.
const interval = 5 * time.Millisecond

// starvedAfter is for how long foreign I/O may stay hidden before a gap is forced.
const starvedAfter = time.Second

// Options describe the disks and their users. The functions are called within Look, while the gate is locked, and must
// not call a gate.
type Options struct {
	// Interval is the least time between two polls; 0: 5 ms, for solid state. A disk that turns needs as long for one
	// access as solid state for a hundred, so polling it more often than each 20 ms gains nothing.
	Interval time.Duration
	// FS is the file system of own writes, as in the mount table; "": not known, so others' writes are harder to see.
	FS string
	// GapsOnly, if not empty, is why foreign I/O can be seen only in gaps.
	GapsOnly string
	// Elsewhere returns how many bytes of this process are proven to have gone to other devices. Nil: the process uses
	// these disks only. If set, the gate must meter every operation (iopolicy.Metering.Attribute).
	Elsewhere func() iopolicy.Bytes
	// Touches: own reads may change access times, which the file system writes seconds later (no O_NOATIME).
	Touches bool
	// Peers are the cooperating processes. Nil: none.
	Peers Peers
	// Served receives after a poll the mean service time and size of the reads since the poll before. Nil: not called.
	Served func(each time.Duration, bytes int)
}

// Peers count the I/O of cooperating processes, which have gates of their own for the same disks.
type Peers interface {
	// Poll returns their I/O so far. Recount looks for new children of theirs as well.
	Poll(now time.Time) PeerIO
	Recount(now time.Time) PeerIO
	// WriterTier returns the tier of writes that are not this process's; !known: they count for no tier.
	WriterTier(now time.Time) (tier iopolicy.Tier, known bool)
	Close()
}

// PeerIO is the I/O of all peers.
type PeerIO struct {
	Read, Dirtied uint64               // bytes since each was first seen; never decreases
	Rose          [iopolicy.Tiers]bool // peers of the tier have read or made dirty since the last poll
	Alive         int
	Changed       bool // a peer came or ended a moment ago
}

// Mode is how much a Watcher can see.
type Mode uint8

// The modes.
const (
	Checking Mode = iota // as Exact, until own reads have been found on the device
	Exact                // foreign I/O is seen during own I/O
	Gaps                 // foreign I/O is seen only while no own operation is in flight
	Blind                // there are no counters
)

// String returns the word for m in reports.
func (m Mode) String() string {
	return [...]string{"checking", "exact", "gaps", "blind"}[m]
}

// source provides the counters. The order of reading matters, so each is read by itself.
type source interface {
	Counters() (Counters, error)
	self() Process
	// cancelled returns the bytes that became dirty and were dropped before they were written.
	cancelled() uint64
	Close()
}

// sample is what one poll reads, in the order of its fields: later fields include all that the device did before.
type sample struct {
	iopolicy.Moment
	dev   Counters
	away  iopolicy.Bytes // own I/O proven to be on other devices
	own   Process
	peers PeerIO
}

// Watcher implements iopolicy.Watcher and iopolicy.GapRequester for some disks. It is safe for concurrent use.
type Watcher struct {
	src source
	opt Options

	mu            sync.Mutex
	last          sample
	clear         time.Time // when own I/O last did not hide foreign reads
	gapState      gapState
	calibration   calibration
	reads         int64 // the most that low has been, a bound that counts only when it exceeds its maximum
	helpers       int64 // like reads, with peers counted as foreign
	pendingPeerIO [iopolicy.Tiers]time.Time
	writes        writes
	foreign       uint64
	err           error
}

var _ iopolicy.GapRequester = (*Watcher)(nil)

// New watches open disks, which the Watcher closes. There must be no own I/O meanwhile.
func New(d *Disks, opt Options) (*Watcher, error) {
	if opt.Interval == 0 {
		opt.Interval = interval
	}
	opt.Interval = d.Pace(opt.Interval)
	return newWatcher(d, opt, d.count())
}

// newWatcher takes a first sample, the base of all later ones. It closes src if that fails.
func newWatcher(src source, opt Options, disks int) (*Watcher, error) {
	w := &Watcher{src: src, opt: opt, writes: newWrites(opt.FS, disks)}
	w.gapState.limit = drained * w.opt.Interval
	g, err := w.sample(iopolicy.Moment{At: time.Now()})
	if err != nil {
		w.close()
		return nil, err
	}
	w.last, w.clear = g, g.At
	w.gapState.begin(g.At)
	w.reads, w.helpers = g.low(), g.lowAlone()
	w.writes.begin(&g, opt)
	w.writes.dropped = src.cancelled()
	w.calibration.begin(&g, opt.Elsewhere != nil)
	if opt.GapsOnly != "" {
		w.calibration.gapsForever(opt.GapsOnly)
	}
	return w, nil
}

func (w *Watcher) close() {
	w.src.Close()
	if w.opt.Peers != nil {
		w.opt.Peers.Close()
	}
}

// Close ends the watch. Later calls of Look see nothing.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(errClosed)
}

// end ends the watch for a reason. w.mu is held.
func (w *Watcher) end(why error) {
	if w.err == nil {
		w.err = why
		w.close()
	}
}

// Interval implements iopolicy.Watcher.
func (w *Watcher) Interval() time.Duration { return w.opt.Interval }

// Err returns why nothing is seen any more, such as a disk that was removed.
func (w *Watcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Mode returns how much is seen, and one sentence why not more; "" if there is no reason.
func (w *Watcher) Mode() (Mode, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return Blind, "The statistics of the device cannot be read any more: " + w.err.Error() + "."
	}
	return w.calibration.mode, w.calibration.why
}

// Foreign returns the bytes known to be foreign so far.
func (w *Watcher) Foreign() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.foreign
}

// NeedsGaps implements iopolicy.GapRequester. Gaps take 5 % of the time at most. In mode Exact it requests one a
// second, and only after foreign I/O has been hidden for that long. While the device is busy in gaps, they become
// longer and rarer.
func (w *Watcher) NeedsGaps() (every, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	length = w.gapState.length(max(w.opt.Interval, 5*time.Millisecond))
	switch every = 20 * length; {
	case w.err != nil:
	case w.calibration.mode == Gaps:
		return max(200*time.Millisecond, every), length
	case w.starved():
		return max(starvedAfter, every), length
	}
	return 0, 0
}

// starved reports whether own I/O has hidden foreign I/O for starvedAfter.
func (w *Watcher) starved() bool  { return w.last.At.Sub(w.clear) > starvedAfter }
func (w *Watcher) gapsOnly() bool { return w.calibration.mode == Gaps || w.starved() }

// sample reads all counters, the device first.
func (w *Watcher) sample(m iopolicy.Moment) (g sample, err error) {
	g.Moment = m
	if g.dev, err = w.src.Counters(); err != nil {
		return g, err
	}
	if w.opt.Elsewhere != nil {
		g.away = w.opt.Elsewhere()
	}
	g.own = w.src.self()
	if w.opt.Peers != nil {
		g.peers = w.opt.Peers.Poll(m.At)
	}
	return g, nil
}

// low is a lower bound of foreign reads, up to a constant.
func (g *sample) low() int64 { return g.lowAlone() - int64(g.peers.Read) }

// lowAlone is low with peers counted as foreign.
func (g *sample) lowAlone() int64 { return int64(g.dev.Read) - int64(g.own.Read) + int64(g.away.Read) }

// Look implements iopolicy.Watcher. It does not block.
func (w *Watcher) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return s
	}
	g, err := w.sample(m)
	if err != nil {
		w.end(err)
		return s
	}
	if g.dev.Read < w.last.dev.Read || g.dev.Written < w.last.dev.Written { // another disk has taken the name
		w.rebase(&g)
		return s
	}
	gap := m.Inflight == 0 && w.last.Inflight == 0 && m.Begun == w.last.Begun
	if !gap {
		w.gapState.begin(m.At)
	}
	rose := w.readsSeen(&g, gap)
	in := w.inflight(&g, gap)
	wrote := w.writesSeen(&g)
	if rose || in {
		s.Newest[0], s.Inflight[0] = m.At, in
	}
	if tier, known := w.writerTier(m.At); wrote && known {
		s.Newest[tier] = m.At
	}
	w.peersSeen(&g, &s)
	w.serve(&g)
	if gap {
		w.count(&g, wrote, &s)
	}
	s.Others, s.Counted = w.others(&g), w.counted(&g)
	s.Served = iopolicy.Served{IOs: g.dev.Reads + g.dev.Writes, Took: g.dev.Waited}
	// I/O submitted outside the gate may still be in flight.
	asked := g.own.Faults != w.last.own.Faults || w.opt.Elsewhere == nil && g.own.Read != w.last.own.Read
	w.gapState.update(&g, &w.last, gap, asked, w.gapsOnly())
	if g.low() >= w.reads {
		w.clear = m.At
	}
	w.last = g
	return s
}

// writerTier returns the tier of writes that are not own ones. Those of peers cannot be distinguished from others.
func (w *Watcher) writerTier(now time.Time) (tier iopolicy.Tier, known bool) {
	if w.opt.Peers == nil {
		return 0, true
	}
	return w.opt.Peers.WriterTier(now)
}

// scattered is the largest mean size of random reads, in bytes.
const scattered = 64 << 10

// serve reports the mean service time of reads since the last poll, if there were hardly any writes.
func (w *Watcher) serve(g *sample) {
	if w.opt.Served == nil || g.dev.Reads <= w.last.dev.Reads || g.dev.Busy < w.last.dev.Busy {
		return
	}
	reads := g.dev.Reads - w.last.dev.Reads
	if writes := g.dev.Writes - w.last.dev.Writes; writes > reads/16 {
		return // a write cache acknowledges them early
	}
	bytes := (g.dev.Read - w.last.dev.Read) / reads
	if bytes > scattered {
		return // sequential reads need no seek
	}
	w.opt.Served((g.dev.Busy-w.last.dev.Busy)/time.Duration(reads), int(bytes))
}

// ownCommit is how many writes in a gap may be a late file system commit of own changes.
const ownCommit = 16

// count reports the number of foreign I/Os in a gap.
func (w *Watcher) count(g *sample, wrote bool, s *iopolicy.Sighting) {
	if g.peers.Read != w.last.peers.Read || g.peers.Dirtied != w.last.peers.Dirtied || g.dev.Reads < w.last.dev.Reads {
		return // peers used the device
	}
	s.Gap, s.IOs = g.At.Sub(w.last.At), g.dev.Reads-w.last.dev.Reads
	writes := g.dev.Writes - w.last.dev.Writes
	if !wrote && w.writes.recent(g.At) {
		writes = less(writes, ownCommit)
	}
	s.IOs, s.Writes = s.IOs+writes, writes
	s.Waited = g.dev.Waited - w.last.dev.Waited
}

// others returns the bytes that others have moved, up to a constant.
func (w *Watcher) others(g *sample) iopolicy.Bytes {
	return iopolicy.Bytes{Read: g.dev.Read - g.own.Read + g.away.Read, Written: g.dev.Written - w.writes.dirtied(g, w.opt)}
}

// counted reports whether others is exact: all that this process submitted has arrived, and it has no peers.
func (w *Watcher) counted(g *sample) bool {
	return g.Inflight == 0 && g.peers.Alive == 0 && w.calibration.mode == Exact
}

// rebase starts again with a sample.
func (w *Watcher) rebase(g *sample) {
	w.last = *g
	w.gapState.begin(g.At)
	w.reads, w.helpers = g.low(), g.lowAlone()
	w.writes.begin(g, w.opt)
	if !w.calibration.final {
		w.calibration.begin(g, w.opt.Elsewhere != nil)
	}
}

// readsSeen reports whether there were foreign reads since the last poll.
func (w *Watcher) readsSeen(g *sample, gap bool) bool {
	if g.low() > w.reads && g.peers.Alive > 0 {
		g.peers = w.opt.Peers.Recount(g.At) // it may be a new child of a peer
	}
	rise := lift(&w.reads, g.low())
	var inGap uint64
	if gap && w.gapState.calm {
		inGap = w.unexplained(g)
	}
	if by := max(rise, inGap); g.peers.Changed || by > 0 && w.writes.readsAlong(g, by) {
		// A peer came or ended, or the file system read metadata for own writes: this is no evidence of foreign reads.
		rise, inGap = 0, 0
	}
	w.calibration.note(g, &w.last, rise > 0, gap && w.gapState.calm, inGap > 0)
	w.lower(g, gap)
	if w.calibration.mode == Gaps {
		rise = 0
	}
	w.foreign += max(rise, inGap)
	return rise > 0 || inGap > 0
}

// unexplained returns the bytes read in a gap beyond what this process can have submitted outside the gate, such as
// pages of its executable.
func (w *Watcher) unexplained(g *sample) uint64 {
	did := g.dev.Read - w.last.dev.Read
	if did == 0 {
		return 0
	}
	did = less(did, g.peers.Read-min(g.peers.Read, w.last.peers.Read))
	// With other devices in use, only page faults can have bypassed the gate.
	if w.opt.Elsewhere != nil && g.own.Faults == w.last.own.Faults {
		return did
	}
	if rise := w.last.lowAlone() - g.lowAlone() + int64(g.dev.Read-w.last.dev.Read); rise > 0 {
		return less(did, uint64(rise))
	}
	return did
}

// lower lowers the ratchets when no own read can be in flight: the missing bytes were read from other devices.
func (w *Watcher) lower(g *sample, gap bool) {
	if g.Inflight > 0 || g.low() >= w.reads && g.lowAlone() >= w.helpers {
		return
	}
	arrived := g.dev.Inflight == 0 || gap && w.gapState.late
	if arrived && gap && g.own.Read == w.last.own.Read && g.away.Read == w.last.away.Read &&
		g.peers.Read == w.last.peers.Read &&
		g.At.Sub(w.last.At) >= w.opt.Interval/4 { // shorter than half a forced gap
		w.reads, w.helpers = min(w.reads, g.low()), min(w.helpers, g.lowAlone())
		return
	}
	if w.opt.Elsewhere != nil || g.peers.Alive > 0 || g.dev.Inflight > 0 {
		return
	}
	again, err := w.src.Counters()
	// The process submitted nothing between its two readings, and the device was idle before the second one: everything
	// submitted is complete.
	if err == nil && again.Inflight == 0 && w.src.self().Read == g.own.Read {
		low := int64(again.Read) - int64(g.own.Read) - int64(g.peers.Read)
		w.reads, w.helpers = min(w.reads, low), min(w.helpers, low+int64(g.peers.Read))
	}
}

// inflight reports whether foreign requests are in flight, which only a gap shows.
func (w *Watcher) inflight(g *sample, gap bool) bool {
	return gap && w.gapState.calm && g.dev.Inflight > 0 && g.own.Faults == w.last.own.Faults && g.peers.Alive == 0 &&
		!w.writes.mayWrite(g)
}

// writesSeen reports whether there were foreign writes or flushes since the last call.
func (w *Watcher) writesSeen(g *sample) bool {
	if w.calibration.mode == Gaps && w.writes.recent(g.At) {
		w.writes.skip(g, w.opt)
		return false
	}
	cancelled := w.src.cancelled
	if w.opt.Elsewhere != nil { // the device is not known
		cancelled = nil
	}
	by, foreign := w.writes.foreign(g, w.opt, cancelled)
	w.foreign += by
	return foreign
}

// peersSeen attributes I/O to peers.
func (w *Watcher) peersSeen(g *sample, s *iopolicy.Sighting) {
	if w.opt.Peers == nil {
		return
	}
	did := lift(&w.helpers, g.lowAlone()) > 0 || g.dev.Written > w.last.dev.Written || g.dev.Flushes > w.last.dev.Flushes
	for t := range w.pendingPeerIO {
		if g.peers.Rose[t] {
			w.pendingPeerIO[t] = g.At
		}
		// The kernel counts their bytes at submission, the device at completion.
		if did && !w.pendingPeerIO[t].IsZero() {
			s.Newest[t] = g.At
		}
		if did || g.At.Sub(w.pendingPeerIO[t]) > time.Second {
			w.pendingPeerIO[t] = time.Time{}
		}
	}
}

// lift makes most at least low, and returns by how much it was less.
func lift(most *int64, low int64) uint64 {
	by := max(0, low-*most)
	*most += by
	return uint64(by)
}

// less returns a-b, or 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
