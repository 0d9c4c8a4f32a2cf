package pressure

import "time"

// drained is how many looks apart own operations must have ended, with nothing begun since, before what the device is
// still busy with is not ours: 100 ms on solid state, 400 ms on a disk that turns. A device is as a rule done with
// read-ahead within one.
const drained = 20

// lull is what is known of the present gap, the time in which no own operation is at the device. Whatever the device does
// in it is others', once what own operations have left on its way has arrived: when a look finds the device idle, or when
// the gap has lasted for long. Who uses a device without a pause would not be seen otherwise.
type lull struct {
	limit time.Duration // how long

	since time.Time     // the gap began, at the latest
	calm  bool          // nothing of ours is on its way any more
	late  bool          // that is known by the time alone: the device has not been idle
	busy  time.Duration // of the longest gap in which the device was not idle, since it last was
	taken bool          // others were at the device all through a gap, and it has not been idle since
}

// begin is told that an own operation was there since the last look.
func (p *lull) begin(now time.Time) { p.since, p.calm, p.late = now, false, false }

// look takes in what a look has found, after it was judged. asked: this process may have asked for something past the gate.
// dark: only a gap can tell whether others are there.
func (p *lull) look(g, last *glance, gap, asked, dark bool) {
	if asked {
		p.begin(g.At)
	}
	switch {
	case g.Inflight > 0:
	case g.dev.inflight == 0:
		p.calm, p.late, p.busy, p.taken = true, false, 0, false
	case !dark:
		p.busy, p.taken = 0, false
	case gap && !p.calm && !asked:
		p.busy = max(p.busy, g.At.Sub(p.since))
		if g.At.Sub(p.since) >= p.limit && g.dev.read > last.dev.read { // one that stands still serves nobody
			p.calm, p.late, p.taken = true, true, true
		}
	case !gap || !asked:
		// Inside a window our operations are small, and nothing is read ahead of them.
		p.calm = p.calm || p.taken
	}
}

// length returns how long a gap must be that is made on purpose, if it would be base otherwise: twice as long each time,
// while the device is not idle in it, until half of it is long enough to tell.
func (p *lull) length(base time.Duration) time.Duration {
	return max(base, min(2*p.busy, 2*p.limit+base))
}
