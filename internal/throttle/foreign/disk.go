package foreign

import (
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// source provides the counters. The order of reading matters, so each is read by itself.
type source interface {
	device() (diskwatch.Counters, error)
	own() diskwatch.Process
	// cancelled returns the bytes that became dirty and were dropped before they were written.
	cancelled() uint64
	close()
}

// sample is what one poll reads, in the order of its fields: later fields include all that the device did before.
type sample struct {
	iopolicy.Moment
	dev   diskwatch.Counters
	away  iopolicy.Bytes // own I/O proven to be on other devices
	own   diskwatch.Process
	peers peerSum
}

// diskDetector detects foreign I/O on disks of this machine.
type diskDetector struct {
	src       source
	opt       Options
	interval  time.Duration
	peerProcs *peerProcesses

	last          sample
	clear         time.Time // when own I/O last did not hide foreign reads
	gapState      gapState
	calibration   calibration
	reads         diskwatch.Ratchet
	helpers       diskwatch.Ratchet // like reads, with peers counted as foreign
	pendingPeerIO [iopolicy.Tiers]time.Time
	writes        writes
	foreign       uint64
	broken        error
}

// newDiskDetector takes a first sample, the base of all later ones.
func newDiskDetector(src source, opt Options, interval time.Duration, fs string) (*diskDetector, error) {
	l := &diskDetector{src: src, peerProcs: newPeerProcesses(), opt: opt, interval: interval,
		writes: newWrites(fs, max(1, len(opt.Stats)))}
	l.gapState.limit = drained * interval
	g, err := l.sample(iopolicy.Moment{At: time.Now()})
	if err != nil {
		return nil, err
	}
	l.last, l.clear = g, g.At
	l.gapState.begin(g.At)
	l.reads.Reset(g.low())
	l.helpers.Reset(g.lowAlone())
	l.writes.begin(&g, opt)
	l.writes.dropped = src.cancelled()
	l.calibration.begin(&g, opt.Elsewhere != nil)
	return l, nil
}

func (l *diskDetector) close() {
	l.src.close()
	l.peerProcs.close()
}

func (l *diskDetector) starved() bool        { return l.last.At.Sub(l.clear) > starvedAfter }
func (l *diskDetector) gapsOnly() bool       { return l.calibration.mode == Gaps || l.starved() }
func (l *diskDetector) foreignBytes() uint64 { return l.foreign }

func (l *diskDetector) gapLength(usual time.Duration) time.Duration { return l.gapState.length(usual) }

func (l *diskDetector) mode() (Mode, string) {
	if l.broken != nil {
		return Blind, "The statistics of the device cannot be read any more: " + l.broken.Error() + "."
	}
	return l.calibration.mode, l.calibration.why
}

// sample reads all counters, the device first.
func (l *diskDetector) sample(m iopolicy.Moment) (g sample, err error) {
	g.Moment = m
	if g.dev, err = l.src.device(); err != nil {
		return g, err
	}
	if l.opt.Elsewhere != nil {
		g.away = l.opt.Elsewhere()
	}
	g.own = l.src.own()
	if l.opt.Peers != nil {
		g.peers = l.peerProcs.poll(l.opt.Peers(), m.At)
	}
	return g, nil
}

// low is a lower bound of foreign reads, up to a constant.
func (g *sample) low() int64 { return g.lowAlone() - int64(g.peers.Read) }

// lowAlone is low with peers counted as foreign.
func (g *sample) lowAlone() int64 { return int64(g.dev.Read) - int64(g.own.Read) + int64(g.away.Read) }

func (l *diskDetector) poll(m iopolicy.Moment) (s iopolicy.Sighting) {
	if l.broken != nil {
		return s
	}
	g, err := l.sample(m)
	if err != nil {
		l.broken = err
		return s
	}
	if g.dev.Read < l.last.dev.Read || g.dev.Written < l.last.dev.Written { // another disk has taken the name
		l.rebase(&g)
		return s
	}
	gap := m.Inflight == 0 && l.last.Inflight == 0 && m.Begun == l.last.Begun
	if !gap {
		l.gapState.begin(m.At)
	}
	rose := l.readsSeen(&g, gap)
	in := l.inflight(&g, gap)
	wrote := l.writesSeen(&g)
	if rose || in {
		s.Newest[0], s.Inflight[0] = m.At, in
	}
	if wrote {
		// Writes of a peer cannot be distinguished from foreign ones.
		if tier, known := l.peerProcs.writerTier(m.At); known {
			s.Newest[tier] = m.At
		}
	}
	l.peersSeen(&g, &s)
	l.serve(&g)
	if gap {
		l.count(&g, wrote, &s)
	}
	s.Others, s.Counted = l.others(&g), l.counted(&g)
	// I/O submitted outside the gate may still be in flight.
	asked := g.own.Faults != l.last.own.Faults || l.opt.Elsewhere == nil && g.own.Read != l.last.own.Read
	l.gapState.update(&g, &l.last, gap, asked, l.gapsOnly())
	if g.low() >= l.reads.Top() {
		l.clear = m.At
	}
	l.last = g
	return s
}

// scattered is the largest mean size of random reads, in bytes.
const scattered = 64 << 10

// serve reports the mean service time of reads since the last poll, if there were hardly any writes.
func (l *diskDetector) serve(g *sample) {
	if l.opt.Served == nil || g.dev.Reads <= l.last.dev.Reads || g.dev.Busy < l.last.dev.Busy {
		return
	}
	reads := g.dev.Reads - l.last.dev.Reads
	if writes := g.dev.Writes - l.last.dev.Writes; writes > reads/16 {
		return // a write cache acknowledges them early
	}
	bytes := (g.dev.Read - l.last.dev.Read) / reads
	if bytes > scattered {
		return // sequential reads need no seek
	}
	l.opt.Served((g.dev.Busy-l.last.dev.Busy)/time.Duration(reads), int(bytes))
}

// ownCommit is how many writes in a gap may be a late file system commit of own changes.
const ownCommit = 16

// count reports the number of foreign I/Os in a gap.
func (l *diskDetector) count(g *sample, wrote bool, s *iopolicy.Sighting) {
	if g.peers.Read != l.last.peers.Read || g.peers.Dirtied != l.last.peers.Dirtied || g.dev.Reads < l.last.dev.Reads {
		return // peers used the device
	}
	s.Gap, s.IOs = g.At.Sub(l.last.At), g.dev.Reads-l.last.dev.Reads
	writes := g.dev.Writes - l.last.dev.Writes
	if !wrote && l.writes.recent(g.At) {
		writes = less(writes, ownCommit)
	}
	s.IOs += writes
	s.Waited = g.dev.Waited - l.last.dev.Waited
}

// others returns the bytes that others have moved, up to a constant.
func (l *diskDetector) others(g *sample) iopolicy.Bytes {
	return iopolicy.Bytes{Read: g.dev.Read - g.own.Read + g.away.Read, Written: g.dev.Written - l.writes.dirtied(g, l.opt)}
}

// counted reports whether others is exact: all that this process submitted has arrived, and it has no peers.
func (l *diskDetector) counted(g *sample) bool {
	return g.Inflight == 0 && g.peers.Alive == 0 && l.calibration.mode == Exact
}

// rebase starts again with a sample.
func (l *diskDetector) rebase(g *sample) {
	l.last = *g
	l.gapState.begin(g.At)
	l.reads.Reset(g.low())
	l.helpers.Reset(g.lowAlone())
	l.writes.begin(g, l.opt)
	if !l.calibration.final {
		l.calibration.begin(g, l.opt.Elsewhere != nil)
	}
}

// readsSeen reports whether there were foreign reads since the last poll.
func (l *diskDetector) readsSeen(g *sample, gap bool) bool {
	if g.low() > l.reads.Top() && g.peers.Alive > 0 {
		g.peers = l.peerProcs.recount(g.At) // it may be a new child of a peer
	}
	rise := uint64(max(0, l.reads.Lift(g.low())))
	var inGap uint64
	if gap && l.gapState.calm {
		inGap = l.unexplained(g)
	}
	if by := max(rise, inGap); g.peers.Changed || by > 0 && l.writes.readsAlong(g, by) {
		// A peer came or ended, or the file system read metadata for own writes: this is no evidence of foreign reads.
		rise, inGap = 0, 0
	}
	l.calibration.note(g, &l.last, rise > 0, gap && l.gapState.calm, inGap > 0)
	l.lower(g, gap)
	if l.calibration.mode == Gaps {
		rise = 0
	}
	l.foreign += max(rise, inGap)
	return rise > 0 || inGap > 0
}

// unexplained returns the bytes read in a gap beyond what this process can have submitted outside the gate, such as
// pages of its executable.
func (l *diskDetector) unexplained(g *sample) uint64 {
	did := g.dev.Read - l.last.dev.Read
	if did == 0 {
		return 0
	}
	did = less(did, g.peers.Read-min(g.peers.Read, l.last.peers.Read))
	// With other devices in use, only page faults can have bypassed the gate.
	if l.opt.Elsewhere != nil && g.own.Faults == l.last.own.Faults {
		return did
	}
	if rise := l.last.lowAlone() - g.lowAlone() + int64(g.dev.Read-l.last.dev.Read); rise > 0 {
		return less(did, uint64(rise))
	}
	return did
}

// lower lowers the ratchets when no own read can be in flight: the missing bytes were read from other devices.
func (l *diskDetector) lower(g *sample, gap bool) {
	if g.Inflight > 0 || g.low() >= l.reads.Top() && g.lowAlone() >= l.helpers.Top() {
		return
	}
	arrived := g.dev.Inflight == 0 || gap && l.gapState.late
	if arrived && gap && g.own.Read == l.last.own.Read && g.away.Read == l.last.away.Read &&
		g.peers.Read == l.last.peers.Read &&
		g.At.Sub(l.last.At) >= l.interval/4 { // shorter than half a forced gap
		l.reads.Lower(g.low())
		l.helpers.Lower(g.lowAlone())
		return
	}
	if l.opt.Elsewhere != nil || g.peers.Alive > 0 || g.dev.Inflight > 0 {
		return
	}
	again, err := l.src.device()
	// The process submitted nothing between its two readings, and the device was idle before the second one: everything
	// submitted is complete.
	if err == nil && again.Inflight == 0 && l.src.own().Read == g.own.Read {
		low := int64(again.Read) - int64(g.own.Read) - int64(g.peers.Read)
		l.reads.Lower(low)
		l.helpers.Lower(low + int64(g.peers.Read))
	}
}

// inflight reports whether foreign requests are in flight, which only a gap shows.
func (l *diskDetector) inflight(g *sample, gap bool) bool {
	return gap && l.gapState.calm && g.dev.Inflight > 0 && g.own.Faults == l.last.own.Faults && g.peers.Alive == 0 &&
		!l.writes.mayWrite(g)
}

// writesSeen reports whether there were foreign writes or flushes since the last call.
func (l *diskDetector) writesSeen(g *sample) bool {
	if l.calibration.mode == Gaps && l.writes.recent(g.At) {
		l.writes.skip(g, l.opt)
		return false
	}
	cancelled := l.src.cancelled
	if l.opt.Elsewhere != nil { // the device is not known
		cancelled = nil
	}
	by, foreign := l.writes.foreign(g, l.opt, cancelled)
	l.foreign += by
	return foreign
}

// peersSeen attributes I/O to peers.
func (l *diskDetector) peersSeen(g *sample, s *iopolicy.Sighting) {
	if l.opt.Peers == nil {
		return
	}
	did := l.helpers.Lift(g.lowAlone()) > 0 || g.dev.Written > l.last.dev.Written || g.dev.Flushes > l.last.dev.Flushes
	for t := range l.pendingPeerIO {
		if g.peers.Rose[t] {
			l.pendingPeerIO[t] = g.At
		}
		// The kernel counts their bytes at submission, the device at completion.
		if did && !l.pendingPeerIO[t].IsZero() {
			s.Newest[t] = g.At
		}
		if did || g.At.Sub(l.pendingPeerIO[t]) > time.Second {
			l.pendingPeerIO[t] = time.Time{}
		}
	}
}

// less returns a-b, or 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
