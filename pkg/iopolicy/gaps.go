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
	ios, bytes, read, seconds float64 // read: of bytes
	odd                       change  // of the last gaps
	row                       int     // for how many gaps
}

// change is what others do compared with before.
type change uint8

const (
	same  change = iota
	less         // they use the device less
	other        // they use it more
)

// compare compares a gap with those before.
func (g *gaps) compare(ios, bytes, seconds float64) change {
	if g.seconds == 0 {
		return same
	}
	part := seconds / g.seconds
	error := math.Sqrt((1 + part) / (g.ios*part + 1))
	most, least := ios/max(1, g.ios*part)-1, (ios+1)/(g.ios*part+1)-1
	if g.bytes > 0 && bytes > 0 {
		most, least = max(most, bytes/(g.bytes*part)-1), min(least, bytes/(g.bytes*part)-1)
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
	if odd == less && g.row >= moreGaps && bytes*smaller*g.ios < g.bytes*max(1, ios) {
		odd = other
	}
	if odd == less && g.row >= lessGaps || odd == other && (g.row >= moreGaps || most > twice+twiceCertainty*error) {
		return odd
	}
	return same
}

// add adds a gap.
func (g *gaps) add(ios, bytes, read, seconds float64) {
	keep := math.Exp(-seconds / gapMemory)
	g.ios, g.bytes, g.seconds = keep*g.ios+ios, keep*g.bytes+bytes, keep*g.seconds+seconds
	g.read = keep*g.read + read
}

// moved returns the sum of the bytes written, or of those read.
func (g *gaps) moved(writes bool) float64 {
	if writes {
		return g.bytes - g.read
	}
	return g.read
}
