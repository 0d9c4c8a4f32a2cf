package pressure

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/pressure/others"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// counts are what a device has done since it exists, summed over the disks below.
type counts struct {
	read, written uint64 // bytes that are complete
	flushes       uint64
	inflight      int // requests on the device
}

// tally is what this process has had submitted to all devices since it began.
type tally struct {
	read    uint64 // bytes, counted when submitted
	dirtied uint64 // bytes, counted when a page gets dirty, or submitted if it is direct
	faults  uint64 // that had to wait for a device
}

// source is where the numbers come from. Their order matters, so each is asked for by itself.
type source interface {
	device() (counts, error)
	own() tally
	// cancelled returns the bytes that got dirty and were dropped before they were written.
	cancelled() uint64
	close()
}

// glance is what was read at one look, in the order of the fields: what comes later includes all that happened at the
// device before.
type glance struct {
	iopolicy.Moment
	syncing int // own flushes at the device, before it was asked
	dev     counts
	away    iopolicy.Bytes // own, proven to be elsewhere
	own     tally
	kin     others.Sum // the peers
	synced  uint64
}

// local judges a device of this machine.
type local struct {
	src      source
	opt      Options
	interval time.Duration
	company  *others.Company

	last    glance
	clear   time.Time // when nothing of our own hid others' reads
	lull    lull
	trust   trust
	reads   ratchet
	helpers ratchet // peers count as others
	owed    [iopolicy.Tiers]time.Time
	writes  writes
	foreign uint64
	broken  error
}

// newLocal begins with a first look, which is the base of all later ones.
func newLocal(src source, opt Options, interval time.Duration, fs string) (*local, error) {
	l := &local{src: src, company: others.NewCompany(), opt: opt, interval: interval, writes: newWrites(fs, max(1, len(opt.Stats)))}
	l.lull.limit = drained * interval
	g, err := l.glance(iopolicy.Moment{At: time.Now()})
	if err != nil {
		return nil, err
	}
	l.last, l.clear = g, g.At
	l.lull.begin(g.At)
	l.reads.top, l.helpers.top = g.low(), g.lowAlone()
	l.writes.begin(&g, opt)
	l.writes.dropped = src.cancelled()
	l.trust.begin(&g, opt.Elsewhere != nil)
	return l, nil
}

func (l *local) close() {
	l.src.close()
	l.company.Close()
}

func (l *local) dim() bool       { return l.last.At.Sub(l.clear) > dimAfter }
func (l *local) dark() bool      { return l.trust.mode == Gaps || l.dim() }
func (l *local) strange() uint64 { return l.foreign }

func (l *local) pause(usual time.Duration) time.Duration { return l.lull.length(usual) }

func (l *local) mode() (Mode, string) {
	if l.broken != nil {
		return Blind, "The statistics of the device cannot be read any more: " + l.broken.Error() + "."
	}
	return l.trust.mode, l.trust.why
}

// glance reads all counters: the device first.
func (l *local) glance(m iopolicy.Moment) (g glance, err error) {
	g.Moment = m
	if l.opt.Syncs != nil {
		g.syncing, _ = l.opt.Syncs()
	}
	if g.dev, err = l.src.device(); err != nil {
		return g, err
	}
	if l.opt.Elsewhere != nil {
		g.away = l.opt.Elsewhere()
	}
	g.own = l.src.own()
	if l.opt.Peers != nil {
		g.kin = l.company.Look(l.opt.Peers(), m.At)
	}
	if l.opt.Syncs != nil {
		_, g.synced = l.opt.Syncs()
	}
	return g, nil
}

// low is the least that others can have read, but for a constant.
func (g *glance) low() int64 { return g.lowAlone() - int64(g.kin.Read) }

// lowAlone is the same if peers are others.
func (g *glance) lowAlone() int64 { return int64(g.dev.read) - int64(g.own.read) + int64(g.away.Read) }

func (l *local) look(m iopolicy.Moment) (s iopolicy.Sighting) {
	if l.broken != nil {
		return s
	}
	g, err := l.glance(m)
	if err != nil {
		l.broken = err
		return s
	}
	if g.dev.read < l.last.dev.read || g.dev.written < l.last.dev.written { // another disk took the name
		l.rebase(&g)
		return s
	}
	gap := m.Inflight == 0 && l.last.Inflight == 0 && m.Begun == l.last.Begun
	if !gap {
		l.lull.begin(m.At)
	}
	rose := l.judgeReads(&g, gap)
	in := l.inflight(&g, gap)
	wrote := l.judgeWrites(&g)
	if rose || in {
		s.Newest[0], s.Inflight[0] = m.At, in
	}
	if wrote {
		// While a peer writes, nobody can tell its writes from others'.
		if tier, counts := l.company.Writer(m.At); counts {
			s.Newest[tier] = m.At
		}
	}
	l.judgePeers(&g, &s)
	// What was asked for past the gate may still be on its way.
	asked := g.own.faults != l.last.own.faults || l.opt.Elsewhere == nil && g.own.read != l.last.own.read
	l.lull.look(&g, &l.last, gap, asked, l.dark())
	if g.low() >= l.reads.top {
		l.clear = m.At
	}
	l.last = g
	return s
}

// rebase forgets what was known.
func (l *local) rebase(g *glance) {
	l.last = *g
	l.lull.begin(g.At)
	l.reads.top, l.helpers.top = g.low(), g.lowAlone()
	l.writes.begin(g, l.opt)
	if !l.trust.astray {
		l.trust.begin(g, l.opt.Elsewhere != nil)
	}
}

// judgeReads tells whether others have read since the last look.
func (l *local) judgeReads(g *glance, gap bool) bool {
	if g.low() > l.reads.top && g.kin.Alive > 0 {
		g.kin = l.company.Again(g.At) // perhaps it was a child that a peer has started meanwhile
	}
	rise := uint64(max(0, l.reads.lift(g.low())))
	var inGap uint64
	if gap && l.lull.calm {
		inGap = l.unexplained(g)
	}
	if by := max(rise, inGap); g.kin.Changed || by > 0 && l.writes.readsAlong(g, by) {
		// What came or went with a peer is not told apart from others; nor what the file system reads to write for us.
		rise, inGap = 0, 0
	}
	l.trust.note(g, &l.last, rise > 0, gap && l.lull.calm, inGap > 0)
	l.lower(g, gap)
	if l.trust.mode == Gaps {
		rise = 0
	}
	l.foreign += max(rise, inGap)
	return rise > 0 || inGap > 0
}

// unexplained returns what the device has read in a gap beyond what threads of this process can have asked for past the
// gate, such as pages of the program itself.
func (l *local) unexplained(g *glance) uint64 {
	did := g.dev.read - l.last.dev.read
	if did == 0 {
		return 0
	}
	did = less(did, g.kin.Read-min(g.kin.Read, l.last.kin.Read))
	// With other devices in use the sum of this process says little: then only faults are left that no gate has seen.
	if l.opt.Elsewhere != nil && g.own.faults == l.last.own.faults {
		return did
	}
	if rise := l.last.lowAlone() - g.lowAlone() + int64(g.dev.read-l.last.dev.read); rise > 0 {
		return less(did, uint64(rise))
	}
	return did
}

// lower takes a low bound as the new maximum where it is proven that nothing of our own is on its way: what it lacks was
// read elsewhere and will never arrive.
func (l *local) lower(g *glance, gap bool) {
	if g.Inflight > 0 || g.low() >= l.reads.top && g.lowAlone() >= l.helpers.top {
		return
	}
	arrived := g.dev.inflight == 0 || gap && l.lull.late
	if arrived && gap && g.own.read == l.last.own.read && g.away.Read == l.last.away.Read && g.kin.Read == l.last.kin.Read &&
		g.At.Sub(l.last.At) >= l.interval/4 { // half of a gap that is made on purpose takes longer
		l.reads.top, l.helpers.top = min(l.reads.top, g.low()), min(l.helpers.top, g.lowAlone())
		return
	}
	if l.opt.Elsewhere != nil || g.kin.Alive > 0 || g.dev.inflight > 0 {
		return
	}
	again, err := l.src.device()
	// Nothing was submitted between the first question to the process and the second, and before the second the device
	// was idle: all that was submitted is complete.
	if err == nil && again.inflight == 0 && l.src.own().read == g.own.read {
		low := int64(again.read) - int64(g.own.read) - int64(g.kin.Read)
		l.reads.top, l.helpers.top = min(l.reads.top, low), min(l.helpers.top, low+int64(g.kin.Read))
	}
}

// inflight tells whether others have requests on the device now, which can be told in a gap only.
func (l *local) inflight(g *glance, gap bool) bool {
	return gap && l.lull.calm && g.dev.inflight > 0 && g.own.faults == l.last.own.faults && g.kin.Alive == 0 && !l.writes.mayWrite(g)
}

// judgeWrites tells whether others have written or flushed since the last judgement.
func (l *local) judgeWrites(g *glance) bool {
	if l.trust.mode == Gaps && l.writes.recent(g.At) {
		l.writes.skip(g, l.opt)
		return false
	}
	cancelled := l.src.cancelled
	if l.opt.Elsewhere != nil { // nobody tells of which device
		cancelled = nil
	}
	by, foreign := l.writes.judge(g, l.opt, cancelled)
	l.foreign += by
	return foreign
}

// judgePeers blames the peers for what they did.
func (l *local) judgePeers(g *glance, s *iopolicy.Sighting) {
	if l.opt.Peers == nil {
		return
	}
	did := l.helpers.lift(g.lowAlone()) > 0 || g.dev.written > l.last.dev.written || g.dev.flushes > l.last.dev.flushes
	for t := range l.owed {
		if g.kin.Rose[t] {
			l.owed[t] = g.At
		}
		// Their bytes were counted when they were submitted, the device counts them when they are complete.
		if did && !l.owed[t].IsZero() {
			s.Newest[t] = g.At
		}
		if did || g.At.Sub(l.owed[t]) > time.Second {
			l.owed[t] = time.Time{}
		}
	}
}

// ratchet is a lower bound that counts only when it exceeds its maximum.
type ratchet struct{ top int64 }

// lift takes a new bound and returns by how much it exceeds all before.
func (r *ratchet) lift(low int64) int64 {
	if low <= r.top {
		return 0
	}
	by := low - r.top
	r.top = low
	return by
}

// less returns a-b, or 0.
func less(a, b uint64) uint64 { return a - min(a, b) }
