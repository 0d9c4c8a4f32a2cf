package iopolicy

import "math"

const (
	// gapMemory is the memory, in seconds of gaps, of the rates to which a gap is compared.
	gapMemory = 0.5
	// twice is by how much others may use the device more in one gap than the mean, and different by how much more or less
	// in several gaps in a row: moreGaps or lessGaps. Each is beyond some standard deviations of their number of I/Os. Who
	// uses it less with smaller I/Os, so many times, or not at all is another one.
	twice              = 1.0
	twiceCertainty     = 4
	different          = 0.3
	differentCertainty = 2.5
	smaller            = 4
	moreGaps           = 2
	lessGaps           = 4
)

// gaps is what others do in gaps: weighted sums.
type gaps struct {
	reads, writes traffic
	seconds       float64
	odd           change // of the last gaps
	row           int    // for how many gaps
}

// traffic is a number of I/Os, and their bytes.
type traffic struct{ ios, bytes float64 }

// plus returns the sum of part of t and u.
func (t traffic) plus(part float64, u traffic) traffic {
	return traffic{part*t.ios + u.ios, part*t.bytes + u.bytes}
}

// change is what others do compared with before.
type change uint8

const (
	same  change = iota
	less         // they use the device less
	other        // they use it more
)

// compare compares the reads of a gap, or its writes, with those before.
func (g *gaps) compare(reads, writes traffic, seconds float64, byWrites bool) change {
	if g.seconds == 0 {
		return same
	}
	part, now, usual := seconds/g.seconds, reads, g.of(byWrites)
	if byWrites {
		now = writes
	}
	error := math.Sqrt((1 + part) / (usual.ios*part + 1))
	most, least := now.ios/max(1, usual.ios*part)-1, (now.ios+1)/(usual.ios*part+1)-1
	if usual.bytes > 0 && now.bytes > 0 {
		ratio := now.bytes / (usual.bytes * part)
		most, least = max(most, ratio-1), min(least, ratio-1)
	}
	odd := same
	switch limit := different + differentCertainty*error; {
	case most > limit:
		odd = other
	case least < -limit:
		odd = less
	}
	if odd != g.odd {
		g.odd, g.row = odd, 0
	}
	g.row++
	if odd == less && g.row >= moreGaps && now.bytes*smaller*usual.ios < usual.bytes*max(1, now.ios) {
		odd = other
	}
	if odd == less && g.row >= lessGaps || odd == other && (g.row >= moreGaps || most > twice+twiceCertainty*error) {
		return odd
	}
	return same
}

// add adds a gap.
func (g *gaps) add(reads, writes traffic, seconds float64) {
	keep := math.Exp(-seconds / gapMemory)
	g.reads, g.writes, g.seconds = g.reads.plus(keep, reads), g.writes.plus(keep, writes), keep*g.seconds+seconds
}

// of returns the sum of the writes, or of the reads.
func (g *gaps) of(writes bool) traffic {
	if writes {
		return g.writes
	}
	return g.reads
}
