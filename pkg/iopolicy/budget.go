package iopolicy

import (
	"math"
	"sync/atomic"
	"time"
)

// With Settings.MaxImpact above 0, a slot grant inside a window is not one I/O but an amount of device time. Two
// numbers, both known before an operation begins, bound what others lose:
//
//   - Own operations in flight inside windows never exceed what the device serves in a time that follows the rate of
//     others (Gate.depth). That is the longest delay of one I/O of others. Where the device is found to serve several
//     at once, reads may exceed it (width).
//   - Own operations are in flight for at most MaxImpact/harm of the time. harm is the part of that time that others
//     lose. One I/O waits for at most that time, and others cannot lose more than all of the time: for a rate of
//     others' I/Os a second, harm is min(1, rate * depth). docs/adr/0015 has the measurements.
//
// The Watcher counts the rate in gaps, in which no own operation is in flight. A gap follows each slot grant.

const (
	// depthPart is which part of the mean time between two I/Os of others the device may be busy with what is in flight.
	depthPart = 0.2
	// waitPart is the same part of the time that an I/O of others takes.
	waitPart = 0.4
	// pacedPart is the largest part of the time for which others who use the device at a pace of their own are at it.
	pacedPart = 0.5
	// leastServed is of how many I/Os of others this time is a mean at least: the kernel counts whole milliseconds.
	leastServed = 50
	// mostDepth is the most of these times on solid state, beside rare I/O: a fifth of what a disk with an arm
	// takes for one.
	mostDepth = 1500 * time.Microsecond
	// leastDepth is the least of these times on solid state, that of a request of leastPiece bytes; sizes of operations
	// are multiples of it.
	leastDepth = 84 * time.Microsecond
	leastPiece = 32 << 10
	// usualDepth is what the calculation takes for the longest delay of one I/O of others at least.
	usualDepth = int64(300 * time.Microsecond)
	// gapShare is the part of a period that the gap after a slot grant takes at least, so that others can be counted in
	// it.
	gapShare = 5
	// leastRate is how many requests a second a job on solid state may issue at least, whatever they cost: those of 300
	// small files with their look-ups, as backupd does at Throttle. A slot grant has a period's share of it.
	leastRate = 400
	// leastRequest is the largest size, in bytes, of one of these requests: a larger one counts as several.
	leastRequest = 16 << 10
	// largestDebt is how many periods of a tier an operation may cost that took longer than its slot grant, such as a
	// flush.
	largestDebt = 10
	// demandMemory is the time constant, in time of gaps, of the mean rate of others.
	demandMemory = int64(500 * time.Millisecond)
	// demandExpiry is the age of the last gap at which its rate is no longer valid.
	demandExpiry = int64(time.Second)
	// shortestGap is the shortest gap in which a rate is measured.
	shortestGap = time.Millisecond
	// flushMemory is the memory of the mean wait for flushes, in nanoseconds of device time of slot grants.
	flushMemory = 2e9
	// countWithin is for how many periods others may go uncounted while a slot grant does not use up its budget.
	countWithin = 4
	// metadataBytes is what a file system reads for one look-up that its cache does not answer: ext4 reads up to 32
	// blocks of inodes around it (inode_readahead_blks).
	metadataBytes = 64 << 10
	leastRead     = 4 << 10 // bytes
	// seriesInTurn is how many calls of a Series may be one operation in a slot grant.
	seriesInTurn = 4
)

// cost estimates for how long a device is busy with requests. The figures are those of a slow device of its kind: SATA
// flash with 50 000 requests and 500 MB a second (measured on a virtio disk on flash: 21 µs for each of 16 requests of
// 4 KiB, 250 µs for one of 128 KiB), and a rotational disk with 8 ms for seek and rotation and 125 MB/s.
type cost struct{ request, kibibyte, inflight time.Duration }

// costOf returns the estimates for a medium.
func costOf(m Medium) cost {
	if m == SSD {
		return cost{20 * time.Microsecond, 2 * time.Microsecond, 600 * time.Microsecond}
	}
	return cost{8 * time.Millisecond, 8 * time.Microsecond, 10 * time.Millisecond}
}

// estimate returns for how long the device is busy with an operation of at most so many bytes. The duration of a flush
// is unknown in advance: with an estimate that no depth exceeds it is the only operation in flight while others use the
// device.
func (c cost) estimate(op Op, most int) int64 {
	if op.Kind == Sync {
		return int64(max(c.inflight, mostDepth)) << widest
	}
	bytes := op.Bytes
	if op.Kind == Metadata {
		bytes = metadataBytes
	}
	return c.of(op, min(bytes, most))
}

// of returns for how long the device is busy with the requests of an operation that have so many bytes.
func (c cost) of(op Op, bytes int) int64 {
	return int64(max(1, op.Requests))*int64(c.request) + int64(bytes)*int64(c.kibibyte)/1024
}

// ahead returns for how long others wait behind an operation: of a look-up, which most often reads nothing, for the
// block it needs. What the file system reads around that comes later.
func (c cost) ahead(op Op, most int) int64 {
	if op.Kind == Metadata {
		return c.of(op, leastRead)
	}
	return c.estimate(op, most)
}

// budget is the device time of the present slot grant. Own operations in flight at the same time share the time: each
// is charged its part. The gate's mu guards it.
type budget struct {
	impact   float64 // Settings.MaxImpact, or what replaced it
	start    int64   // of the present slot grant
	spentAt  int64   // when it was used up; never: not yet
	granted  int64   // what it was at first
	used     int64   // charged to the slot grant, with the excess of earlier ones
	requests int     // charged to the slot grant
	load     int64   // estimates of the operations in flight
	inflight int64   // number of operations in flight
	shared   int64   // integral of the time over 1/inflight
	since    int64   // when shared was updated
	demand   demand
	trial    trial
	pace     pace
	flushes  flushes
	piece    atomic.Int64 // bytes of the largest operation in a window
	total    int64        // device time of all slot grants
	lost     float64      // of total: what others lost, at most
}

// demand is the rate of others' I/O.
type demand struct {
	// last is the rate in the last gap, less twice its standard deviation, since a gap may be short; mean is the rate over
	// demandMemory.
	last, mean float64
	each       service
	at         int64 // when the last gap ended; never: not known
}

// service is how long the I/Os of others took in gaps, in weighted sums.
type service struct{ took, ios float64 }

// mean returns the mean; 0: not known.
func (s service) mean() time.Duration {
	if s.ios < leastServed {
		return 0
	}
	return time.Duration(s.took / s.ios)
}

// note records what others did in a gap that ended now.
func (d *demand) note(now int64, s Sighting) {
	gap, ios := s.Gap, s.IOs
	rate, n := float64(ios)/gap.Seconds(), float64(ios)
	d.last = max(0, n-2*math.Sqrt(n)) / gap.Seconds()
	if now-d.at > demandExpiry {
		d.mean, d.each = rate, service{}
	}
	keep := math.Exp(-float64(gap) / float64(demandMemory))
	d.mean = rate + (d.mean-rate)*keep
	d.each = service{d.each.took*keep + float64(s.Waited), d.each.ios*keep + n}
	d.at = now
}

// rate returns others' I/Os a second; infinity if it is not known.
func (d *demand) rate(now int64) float64 {
	if now-d.at > demandExpiry {
		return math.Inf(1)
	}
	return max(d.last, d.mean)
}

// budgeted reports whether slot grants are budgets of device time. g.mu is held.
func (g *Gate) budgeted() bool { return g.budget.impact > 0 }

// calculated returns the part of a grant's time that others lose, at most. g.mu is held.
func (g *Gate) calculated(now int64) float64 {
	return min(1, g.budget.demand.rate(now)*time.Duration(max(usualDepth, g.depth(now))).Seconds())
}

// harm returns the same, by measurement if that is less. g.mu is held.
func (g *Gate) harm(now int64) float64 {
	return min(g.calculated(now), g.budget.trial.bound(now, g.budget.impact, g.wait(now)))
}

// wait returns the part of a grant's time that others lose by waiting for what is in flight, if they use the device at
// a pace of their own: each for half of its time in the mean. One operation may be in flight that takes longer than
// depth. It is infinite if they may use the device as fast as it serves them. g.mu is held.
func (g *Gate) wait(now int64) float64 {
	d := &g.budget.demand
	rate, each := d.rate(now), d.each.mean()
	if busy := rate * each.Seconds(); g.medium != SSD || each == 0 || busy > pacedPart {
		return math.Inf(1)
	}
	ahead := max(float64(g.depth(now)), float64(leastDepth)*g.budget.pace.factor())
	return rate * (ahead/2 + g.budget.flushes.mean()) / float64(time.Second)
}

// depth returns for how long the device may be busy with what is in flight. On solid state that is what costs nothing
// of the largest grant, and beside more I/O of others a part of the mean time between two of them, or of the time that
// one of them takes. g.mu is held.
func (g *Gate) depth(now int64) int64 {
	c := costOf(g.medium)
	if g.medium != SSD {
		return int64(c.inflight)
	}
	d := &g.budget.demand
	between, each := float64(time.Second)/d.rate(now), float64(d.each.mean())
	return int64(max(
		min(g.budget.impact/longestTurn*between, float64(mostDepth)),
		min(depthPart*between, float64(usualDepth)),
		min(waitPart*each, float64(c.inflight)),
		float64(leastDepth)))
}

// room returns what others leave for a larger width. Beside I/O without a pause it is not needed where the job has a
// third of the time; beside other I/O not where the least is in flight, since that may be too much already. g.mu is
// held.
func (g *Gate) room(now int64) room {
	switch {
	case !math.IsInf(g.wait(now), 1):
		if g.depth(now) > int64(leastDepth) {
			return room{widestPaced, slowerPaced, oftenPaced}
		}
	case g.share(now) < largestPart/growth:
		return room{widest, slower, often}
	}
	return room{}
}

// noteDemand takes what a look saw of others. g.mu is held.
func (g *Gate) noteDemand(now int64, s Sighting) {
	b := &g.budget
	b.trial.look(now, b.total, s, g.slot.spent)
	if s.Gap >= shortestGap {
		b.demand.note(now, s)
	}
	g.adaptPiece(now)
}

// adaptPiece sets the size of the largest operation to what the device serves in depth. g.mu is held.
func (g *Gate) adaptPiece(now int64) {
	piece := g.cfg.Settings.MaxIOSize
	if g.budgeted() && g.medium == SSD {
		c := costOf(SSD)
		bytes := (g.depth(now) - int64(c.request)) * 1024 / int64(c.kibibyte)
		piece = min(piece, max(leastPiece, int(bytes)/leastPiece*leastPiece))
	}
	g.budget.piece.Store(int64(piece))
}

// largest returns the size in bytes of the largest operation in a window.
func (g *Gate) largest() int { return int(g.budget.piece.Load()) }

// longestTurn is the largest part of the time that slot grants take.
const longestTurn = 1 - 1.0/gapShare

// share returns the part of the time of slot grants. g.mu is held.
func (g *Gate) share(now int64) float64 { return min(longestTurn, g.budget.impact/g.harm(now)) }

// Share returns the part of the time that slot grants take; 1 while no window is open, and where a slot grant is one
// operation.
func (g *Gate) Share() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); g.budgeted() && now < g.count.openUntil {
		return g.share(now)
	}
	return 1
}

// allowance returns the mean device time of a slot grant of tier t. g.mu is held.
func (g *Gate) allowance(t Tier, now int64) int64 { return int64(g.share(now) * float64(g.span(t))) }

// allowed returns the device time of the present slot grant, of tier t. g.mu is held.
func (g *Gate) allowed(t Tier, now int64) int64 {
	return int64(min(g.share(now)*g.budget.trial.arm.factor, longestTurn) * float64(g.span(t)))
}

// full reports whether an operation beside those in flight would delay others for longer than depth. g.mu is
// held.
func (g *Gate) full(op Op) bool {
	c := costOf(g.medium)
	now := g.now()
	depth := g.depth(now)
	if !op.Kind.writes() {
		depth *= g.budget.trial.width.factor()
	}
	load := float64(g.budget.load+c.ahead(op, g.largest())) * g.budget.pace.factor()
	return g.budget.load > 0 && load > float64(depth)
}

// reserve counts an operation as in flight in the slot grant. g.mu is held.
func (g *Gate) reserve(w *opState, op Op) {
	c := costOf(g.medium)
	w.cost, w.ahead = c.estimate(op, g.largest()), c.ahead(op, g.largest())
	g.budget.load += w.ahead
}

// enter begins an operation with a budget, on the goroutine that will do it: the time to wake that up is not device
// time.
func (g *Gate) enter(w *opState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &g.budget
	b.advance(g.now())
	w.entered = b.shared
	b.inflight++
	b.trial.width.enter(b.inflight)
}

// exit ends an operation of n bytes with a budget, and charges its part of the device time if it has reached the
// device.
func (g *Gate) exit(grant Grant, n, requests int, reached bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	b, w, at := &g.budget, grant.way, grant.mark.lane()
	b.advance(now)
	part := b.shared - w.entered
	b.load -= w.ahead
	b.inflight--
	if reached && grant.mark.kind() != Sync {
		part = b.pace.charge(part, w.cost)
	}
	w.cost = 0
	g.ways.Put(w)
	if !reached || at == 0 || at == passive {
		return
	}
	g.count.charged++
	if span := g.span(at); g.ledger != nil && now-g.slot.claimed >= span-span/gapShare {
		g.slot.claimed = now - span + span/gapShare // so the slot is this process' until a gap from now
		g.ledger.Charge(at, g.time(g.slot.claimed))
	}
	b.total += part
	b.flushes.add(part, grant.mark.kind() == Sync)
	b.lost += float64(part) * g.harm(now)
	b.used += part
	b.requests += max(requests, n/leastRequest)
	if allowed := g.allowed(at, now); !g.slot.spent &&
		(b.over(allowed, g.span(at), g.medium) || b.uncounted(allowed, g.span(at), now)) {
		g.slot.spent, b.spentAt, b.granted = true, now, allowed
	}
}

// flushes is how long an I/O of others waits for one of ours, in weighted sums over the device time of slot grants.
type flushes struct{ waits, turns float64 } // ns², ns

// add adds the device time of an operation.
func (f *flushes) add(part int64, flush bool) {
	took := float64(part)
	keep := math.Exp(-took / flushMemory)
	f.waits, f.turns = keep*f.waits, keep*f.turns+took
	if flush {
		f.waits += took * took / 2
	}
}

// mean returns the mean of what arrives in slot grants, in nanoseconds.
func (f *flushes) mean() float64 {
	if f.turns == 0 {
		return 0
	}
	return f.waits / f.turns
}

// pace is the duration of operations as a multiple of their estimates when they do not wait for others: the least of
// the last 64 to 128. What an operation takes beyond that, it waits behind others or for a processor.
type pace struct {
	least, before float64 // of the present 64 operations, and of the 64 before
	seen          int
}

// paceOver is over how many operations the least is taken, and unhurried by how much one may exceed it.
const (
	paceOver  = 64
	unhurried = 1.5
)

// factor returns the multiple; at least 1, since a quick operation may have been answered by a cache in part.
func (p *pace) factor() float64 {
	least := p.before
	if p.seen > 0 && (least == 0 || p.least < least) {
		least = p.least
	}
	return max(1, least)
}

// charge records how long an operation took, and returns for how much of that the device was busy with it.
func (p *pace) charge(took, estimate int64) int64 {
	if ratio := float64(took) / float64(estimate); p.seen == 0 || ratio < p.least {
		p.least = ratio
	}
	if p.seen++; p.seen == paceOver {
		p.before, p.seen = p.least, 0
	}
	return min(took, int64(unhurried*p.factor()*float64(estimate)))
}

// over reports whether a slot grant is used up.
func (b *budget) over(allowed, span int64, m Medium) bool {
	least := int(leastRate * b.trial.arm.factor * float64(span) / float64(time.Second))
	return b.used >= allowed && (b.requests >= least || m != SSD)
}

// uncounted reports whether others have not been counted for several periods, so that a slot grant of full length
// ends.
func (b *budget) uncounted(allowed, span, now int64) bool {
	return now-b.demand.at > countWithin*span && now-b.start >= allowed
}

// advance updates the shared device time.
func (b *budget) advance(now int64) {
	if b.inflight > 0 {
		b.shared += (now - b.since) / b.inflight
	}
	b.since = now
}

// beginTurn starts a slot grant of a tier, and reports whether it is larger than nothing. A disk with an arm has debts
// first, since one operation may take longer than a slot grant. g.mu is held.
func (g *Gate) beginTurn(t Tier, now int64) bool {
	b := &g.budget
	if b.impact > 0 {
		begun, flying := g.operations()
		b.trial.room = g.room(now)
		b.trial.next(now, b.total, b.impact, g.share(now), flying == 0 && g.gap == begun+1 && b.trial.seen.Counted)
	}
	b.used = min(max(0, b.used-b.granted), largestDebt*g.span(t))
	b.granted = g.allowed(t, now)
	b.start, b.spentAt, b.requests = now, never, 0
	return b.granted > 0 && (g.medium == SSD || b.used < b.granted)
}

// gapEnd returns when the gap after a slot grant is long enough for tier t. g.mu is held.
func (g *Gate) gapEnd(t Tier) int64 {
	if !g.budgeted() || g.budget.spentAt == never {
		return never
	}
	return g.budget.spentAt + g.span(t)/gapShare
}

// fill starts as many waiters as the slot grant has room for. g.mu is held.
func (g *Gate) fill(now int64) {
	if !g.budgeted() || g.shut || g.slot.spent || g.forced.on {
		return
	}
	for t := Tier(1); t < Tiers; t++ {
		for {
			w := g.first(t, now)
			if w == nil || g.state(t, w.op, now) == Waiting {
				break
			}
			g.leave(w, now)
			g.hand(w, g.state(t, w.op, now), now)
		}
	}
}

// SetMaxImpact changes Settings.MaxImpact: the part of their speed that others may lose while a window is open, from
// 0, which makes each slot grant one I/O, to 1.
func (g *Gate) SetMaxImpact(part float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.budget.impact = min(max(part, 0), 1)
	g.adaptPiece(g.now())
	g.settle()
}
