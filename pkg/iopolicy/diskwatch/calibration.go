package diskwatch

import "time"

const (
	// proof is after how many bytes of own reads process and device are compared.
	proof = 4 << 20
	// patience is the same for a device that is never idle: much more than can be in flight.
	patience = 256 << 20
	// mismatches is how many foreign reads at random must have been missing in gaps before the comparison is abandoned:
	// others' reads fall into gaps too, unless own operations cause them. Of this many all are missing by chance once in
	// 5e8 times (exp(-20)).
	mismatches = 20.0
)

// calibration determines whether device and process agree on own reads.
type calibration struct {
	mode Mode
	why  string

	attributed bool      // own reads are known from the gate only
	own, dev   uint64    // at the beginning of the comparison
	missing    float64   // how many unexplained reads should have been in gaps, since the last one that was
	quiet      time.Time // the last gap without one ended
	stirred    bool      // unexplained reads followed own operations since then
	used       bool      // the device has read since then
	final      bool      // the comparison is abandoned
}

// ownReads returns a lower bound of own reads from the device.
func (t *calibration) ownReads(g *sample) uint64 {
	if t.attributed {
		return g.Own.Read
	}
	return g.own.Read
}

func (t *calibration) begin(g *sample, attributed bool) {
	*t = calibration{attributed: attributed}
	t.own, t.dev = t.ownReads(g), g.dev.Read
}

// gapsForever abandons the comparison.
func (t *calibration) gapsForever(why string) {
	t.mode, t.why, t.final = Gaps, why+", so others' use is seen only in gaps.", true
}

// note takes the result of a poll.
func (t *calibration) note(g, last *sample, rose, calmGap, stranger bool) {
	if t.final {
		return
	}
	t.compare(g)
	t.stirred = t.stirred || rose
	t.used = t.used || g.dev.Read > last.dev.Read
	gap := g.At.Sub(last.At)
	switch {
	case stranger:
		t.missing = 0
	case !calmGap || gap < time.Millisecond:
		return
	case t.stirred && !t.quiet.IsZero():
		t.missing += float64(gap) / float64(g.At.Sub(t.quiet))
	case t.used: // all reads were own
		t.missing = 0
	}
	t.quiet, t.stirred, t.used = g.At, false, false
	if t.missing >= mismatches {
		t.gapsForever("The device reads more for us than we ask for")
	}
}

// compare checks whether own reads reach the device. A tenth may be pages of the executable on another disk. If half
// are missing, a cache below the file system answers them.
func (t *calibration) compare(g *sample) {
	own, dev := t.ownReads(g)-t.own, g.dev.Read-t.dev
	if own < proof || own < patience && g.dev.Inflight > 0 { // read-ahead is counted as own before it arrives
		return
	}
	switch {
	case dev >= own-own/10:
		t.mode, t.why = Exact, ""
	case dev < own/2:
		t.mode, t.why = Gaps, "What we read does not reach the device that is watched, so others' use is seen only in gaps."
	}
	t.own, t.dev = t.ownReads(g), g.dev.Read
}
