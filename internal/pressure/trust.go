package pressure

import "time"

const (
	// proof is how many bytes of own reads the device is compared with.
	proof = 4 << 20
	// patience is how many if the device is never idle: much more than can be on its way.
	patience = 256 << 20
	// doubts is how many times in a row own operations must have been followed by reads of the device that nobody
	// submitted, with a quiet gap between every two, before the sums are given up. While others really read, gaps are
	// not quiet, or the operations between them are clean.
	doubts = 6
)

// trust finds out whether the device and the process agree on own reads.
type trust struct {
	mode Mode
	why  string

	attributed bool   // own reads are known from the gate only
	own, dev   uint64 // at the beginning of the comparison
	loud       int    // doubts so far
	stirred    bool   // since the last quiet gap own operations were followed by unexplained reads
	used       bool   // since the last quiet gap the device has read
	astray     bool   // given up for good
}

// claimed is what this process has read from the device at least.
func (t *trust) claimed(g *glance) uint64 {
	if t.attributed {
		return g.Own.Read
	}
	return g.own.read
}

func (t *trust) begin(g *glance, attributed bool) {
	*t = trust{attributed: attributed}
	t.own, t.dev = t.claimed(g), g.dev.read
}

// giveUp compares no sums any more.
func (t *trust) giveUp(why string) {
	t.mode, t.why, t.astray = Gaps, why+", so others' use is seen only in gaps.", true
}

// note takes what was found at a look.
func (t *trust) note(g, last *glance, rose, calmGap, stranger bool) {
	if t.astray {
		return
	}
	t.compare(g)
	t.stirred = t.stirred || rose
	t.used = t.used || g.dev.read > last.dev.read
	switch {
	case stranger:
		t.loud, t.stirred, t.used = 0, false, false
	case !calmGap || g.At.Sub(last.At) < time.Millisecond:
	case t.stirred:
		t.loud++
		t.stirred, t.used = false, false
	case t.used: // own reads that were explained to the byte
		t.loud, t.used = 0, false
	}
	if t.loud >= doubts {
		t.giveUp("The device reads more for us than we ask for")
	}
}

// compare sees whether the bytes of own reads arrive at the device. A tenth may be the program's own pages, on another
// disk; what is more is not proven, and half of it missing is proof that something between answers for the device.
func (t *trust) compare(g *glance) {
	own, dev := t.claimed(g)-t.own, g.dev.read-t.dev
	if own < proof || own < patience && g.dev.inflight > 0 { // read-ahead is counted as own before it arrives
		return
	}
	switch {
	case dev >= own-own/10:
		t.mode, t.why = Exact, ""
	case dev < own/2:
		t.mode, t.why = Gaps, "What we read does not reach the device that is watched, so others' use is seen only in gaps."
	}
	t.own, t.dev = t.claimed(g), g.dev.read
}
