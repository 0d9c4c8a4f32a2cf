package iopolicy

import (
	"math"
	"math/rand/v2"
)

// The calculation of budget.go bounds what others may lose. A trial measures what they do lose, and replaces the
// calculated harm while the measured one is lower. Slot grants come in pairs: in random order a larger and a smaller
// one, whose mean is the grant. What the two periods differ by in the rate of others is what the difference in own
// device time costs them, on any device. Drift meets both alike.
//
//	slot grant -> turn -> gap, Sighting.Others -> period -> pair -> estimate -> harm -> slot grant
//
// docs/adr/0021 has the reasons for the numbers.

const (
	// pairMemory is the memory of a trial in pairs, and leastMemory the least in nanoseconds.
	pairMemory  = 80
	leastMemory = 4e9
	// enoughSamples is the number of samples that a bound needs, and fewSamples that which an expectation needs.
	enoughSamples = 16
	fewSamples    = 6
	// certainty is by how many standard errors the bound exceeds the mean: 97.7 % if errors are normal. An alarm, which
	// may come at each pair, needs more.
	certainty      = 2
	alarmCertainty = 3
	// growth is how many times the recent mean grant a grant may be, since more was not tried.
	growth = 2
	// largestPart is the largest part of the time that a measured bound allows. What is left allows a contrast.
	largestPart = 0.7
	// recentSamples is the memory of the mean that shows a loss at once.
	recentSamples = 8.0
	// fallen is how much of their rate others may lose for certain from before a measured bound was used: they may use the
	// device less because it has become slow, and what we do may slow them later.
	fallen = 0.1
	// strange is by how much others may move more or less in a pair than usual. mostStrange pairs in a row are not
	// strange.
	strange     = 0.5
	mostStrange = 4
	// firstHold is for how long only the calculation is used after others' rate has fallen. It doubles up to longestHold.
	firstHold   = int64(10e9)
	longestHold = 8 * firstHold
	// pairExpiry is the age of the last pair at which a bound is no longer valid.
	pairExpiry = int64(2e9)
)

// trial is the experiment at one gate. The gate's mu guards it.
type trial struct {
	seen    Sighting // of the last look
	arm     arm
	periods periods
	rates   estimate // of others' rates in the periods of a pair
	turns   estimate // of others' rates in turns, against those in gaps: who catches up in a gap has waited
	gaps    gaps
	writes  bool // others are their writes, not their reads
	record  record
	width   width
	room    room
}

// arm is the choice of the present slot grant.
type arm struct {
	factor float64 // times the mean grant of its pair
	larger bool    // it is the larger one of its pair
	second bool    // it is the second of its pair
}

// mostlyWrites is how many times the bytes of their reads others must write in gaps to be measured by their writes.
// What the file system writes for us, such as its journal, counts as theirs too, and hides what their reads lose.
const mostlyWrites = 4

// period is the time from one slot grant to the next, or a part of it; or the sums at a moment.
type period struct {
	length int64  // ns
	others uint64 // bytes that others moved; a difference may be negative
	own    int64  // ns of device time of slot grants
	served Served // by the device, ours too
}

// since returns what happened since an earlier moment.
func (p period) since(q period) period {
	return period{p.length - q.length, p.others - q.others, p.own - q.own, p.served.since(q.served)}
}

// rate returns the bytes that others moved in a nanosecond.
func (p period) rate() float64 { return float64(int64(p.others)) / float64(p.length) }

// part returns the part of the time in which own operations were at the device.
func (p period) part() float64 { return float64(p.own) / float64(p.length) }

// periods are the moments of the present pair.
type periods struct {
	began  period    // the present one; zero: not known
	paused period    // its gap; zero: it has not begun
	pair   [2]period // with the smaller and the larger grant
}

// record is what others did before and during a trial.
type record struct {
	usual, of float64 // sum of others' rates beside the smaller grant, and of the weights
	before    float64 // the mean while only the calculation was used; 0: not known
	pairs     float64 // before is the mean of so many
	granted   float64 // the mean part of the time of the last grants, whether all of it was used or not
	at        int64   // when the last pair was added
	until     int64   // only the calculation is used
	held      int64   // for how long, the last time
	strange   int     // number of strange pairs in a row
}

// estimate is a mean harm: weighted sums over samples of a loss, as a part of others' usual rate, and of the contrast,
// the part of the own device time that caused it.
type estimate struct {
	weight, square float64 // of the weights, and of their squares
	loss, spread   float64 // and of the squares of the loss
	contrast       float64
	recent         recent
}

// recent are the means of recentSamples.
type recent struct {
	loss, contrast float64
	mean           float64 // own part of the time
}

// add adds a sample. The weights of earlier ones are multiplied by keep.
func (e *estimate) add(keep, loss, contrast, mean float64) {
	e.weight, e.square = keep*e.weight+1, keep*keep*e.square+1
	e.loss, e.spread = keep*e.loss+loss, keep*e.spread+loss*loss
	e.contrast = keep*e.contrast + contrast
	r, part := &e.recent, max(1/recentSamples, 1/e.weight)
	r.loss += (loss - r.loss) * part
	r.contrast += (contrast - r.contrast) * part
	r.mean += (mean - r.mean) * part
}

// enough reports whether there are so many samples.
func (e *estimate) enough(samples float64) bool {
	return e.square > 0 && e.samples() >= samples && e.contrast > 0
}

// samples returns how many there are, by their weights.
func (e *estimate) samples() float64 { return e.weight * e.weight / e.square }

// deviation returns the standard deviation of the loss of one sample.
func (e *estimate) deviation() float64 {
	mean := e.loss / e.weight
	return math.Sqrt(max(0, e.spread/e.weight-mean*mean))
}

// bounds returns the least and the most that others lose of the device time of slot grants.
func (e *estimate) bounds() (least, most float64) {
	error := certainty * e.deviation() / math.Sqrt(e.samples()) * e.weight
	return (e.loss - error) / e.contrast, (e.loss + error) / e.contrast
}

// harmful reports whether recent samples show that others lose more than a part.
func (e *estimate) harmful(part float64) bool {
	least := e.recent.loss - alarmCertainty*e.deviation()/math.Sqrt(2*recentSamples-1)
	return e.recent.contrast > 0 && least*e.recent.mean/e.recent.contrast > part
}

// forget starts again, with the calculation.
func (t *trial) forget() {
	t.width.forget()
	*t = trial{seen: t.seen, arm: arm{factor: 1}, record: record{until: t.record.until, held: t.record.held},
		writes: t.writes, width: t.width}
}

// others returns the bytes by which others are measured.
func (t *trial) others(b Bytes) uint64 {
	if t.writes {
		return b.Written
	}
	return b.Read
}

// choose decides by what others did in gaps whether they are measured by their writes.
func (t *trial) choose() {
	read, written := t.gaps.reads.bytes, t.gaps.writes.bytes
	if writes := written > mostlyWrites*read; writes != t.writes && (writes || read > written) {
		t.writes = writes
		t.forget()
	}
}

// hold keeps to the calculation for some time.
func (t *trial) hold(now int64) {
	t.record.held = min(max(firstHold, 2*t.record.held), longestHold)
	t.record.until = now + t.record.held
	t.forget()
}

// fell starts again after others' rate has fallen. They may suffer from the trial, so their rate before it is kept.
func (t *trial) fell(now int64) {
	before, pairs := t.record.before, t.record.pairs
	if t.rates.enough(fewSamples) && now >= t.record.until {
		t.hold(now)
	} else {
		t.forget()
	}
	t.record.before, t.record.pairs = before, pairs
}

// known reports whether there is a measurement.
func (t *trial) known(now int64) bool {
	return t.rates.enough(fewSamples) && t.turns.enough(fewSamples) && now-t.record.at <= pairExpiry &&
		now >= t.record.until
}

// bound returns the measured harm, or a lower expected one that the measurement does not exclude; infinity while it is
// not known.
func (t *trial) bound(now int64, impact, expected float64) float64 {
	if !t.known(now) {
		return math.Inf(1)
	}
	most := min(largestPart, growth*t.record.granted)
	harm := 0.0
	for _, e := range []*estimate{&t.rates, &t.turns} {
		least, greatest := e.bounds()
		if !e.enough(enoughSamples) {
			greatest = math.Inf(1)
		}
		if least <= expected {
			greatest = min(greatest, expected)
		}
		harm = max(harm, greatest)
	}
	return max(harm, impact/most)
}

// look takes what a look saw. own is the device time of all slot grants so far, and spent reports that the present one
// is over.
func (t *trial) look(now, own int64, s Sighting, spent bool) {
	before := t.seen
	t.seen = s
	p := &t.periods
	if s.Counted && spent && p.paused.length == 0 {
		p.paused = period{now, t.others(s.Others), own, s.Served}
	}
	if s.Gap < shortestGap {
		return
	}
	seconds, reads, writes := s.Gap.Seconds(), traffic{ios: float64(s.IOs - s.Writes)}, traffic{ios: float64(s.Writes)}
	if s.Counted && before.Counted {
		reads.bytes = float64(int64(s.Others.Read - before.Others.Read))
		writes.bytes = float64(int64(s.Others.Written - before.Others.Written))
	}
	switch t.gaps.compare(reads, writes, seconds, t.writes) {
	case other:
		t.forget()
	case less:
		t.fell(now)
	case same:
	}
	t.gaps.add(reads, writes, seconds)
	t.choose()
}

// next ends a period and chooses the slot grant of the next one. own is the device time of all slot grants so far, and
// share the part of the time that slot grants may take. exact reports whether others are counted up to now.
func (t *trial) next(now, own int64, impact, share float64, exact bool) {
	p := &t.periods
	moment := period{now, t.others(t.seen.Others), own, t.seen.Served}
	if !exact || share > largestPart {
		if !t.seen.Counted {
			t.forget()
		}
		p.began, p.paused, t.arm, t.width.now = period{}, period{}, arm{factor: 1}, 0
		return
	}
	known, second := p.began.length > 0, t.arm.second
	if known {
		p.pair[index(t.arm.larger)] = moment.since(p.began)
		t.turn(moment)
	}
	if known && second {
		t.pair(now, impact, share)
	}
	p.began, p.paused = moment, period{}
	t.width.next(t.known(now) && t.seen.Served.Took > 0, t.room)
	if t.arm.second = known && !second; t.arm.second {
		t.arm.larger = !t.arm.larger
	} else {
		t.arm.larger = rand.Uint64()&1 == 0
	}
	if t.arm.factor = min(2, longestTurn/share); !t.arm.larger {
		t.arm.factor = 2 - t.arm.factor
	}
}

func index(larger bool) int {
	if larger {
		return 1
	}
	return 0
}

// keep returns the factor on the weights of earlier samples. There is one in so many nanoseconds.
func keep(length int64, samples float64) float64 {
	return math.Exp(-min(1/(samples*pairMemory), float64(length)/leastMemory))
}

// turn compares others' rate in the turn that has ended with that in gaps.
func (t *trial) turn(end period) {
	p := &t.periods
	usual := t.gaps.of(t.writes).bytes / t.gaps.seconds / 1e9
	turn, all := p.paused.since(p.began), end.since(p.began)
	if p.paused.length == 0 || turn.own <= 0 || turn.length <= 0 || !(usual > 0) {
		return
	}
	t.width.note(turn.served, t.room)
	loss := (usual - turn.rate()) / usual * float64(turn.length) / float64(all.length)
	t.turns.add(keep(all.length, 2), loss, all.part(), all.part())
}

// pair adds a pair of periods, and returns to the calculation if it shows harm.
func (t *trial) pair(now int64, impact, share float64) {
	r, smaller, larger := &t.record, t.periods.pair[0], t.periods.pair[1]
	usual, mean := r.usual/r.of, (smaller.rate()+larger.rate())/2
	kept := keep(smaller.length+larger.length, 1)
	if r.of > 0 && math.Abs(mean-usual) > strange*usual { // it counts as one that is just not strange
		r.usual, r.of = kept*r.usual+usual*(1+math.Copysign(strange, mean-usual)), kept*r.of+1
		switch r.strange++; {
		case r.strange == mostStrange && mean < usual:
			t.fell(now)
		case r.strange == mostStrange:
			t.forget()
		}
		return
	}
	r.usual, r.of = kept*r.usual+smaller.rate(), kept*r.of+1
	if usual = r.usual / r.of; usual <= 0 {
		return
	}
	t.rates.add(kept, (smaller.rate()-larger.rate())/usual, larger.part()-smaller.part(), (larger.part()+smaller.part())/2)
	r.granted += (share - r.granted) * max(1/recentSamples, 1/t.rates.weight)
	if r.at, r.strange = now, 0; !t.rates.enough(fewSamples) {
		return
	}
	switch {
	case now < r.until || r.before == 0:
		r.before, r.pairs = usual, t.rates.samples()
	case usual < (1-fallen-certainty*t.rates.deviation()*math.Sqrt(1/(2.0*enoughSamples)+1/r.pairs))*r.before:
		t.hold(now)
	case t.rates.harmful(impact):
		t.forget()
	case now-r.until > 4*r.held:
		r.held = 0
	}
}
