package iopolicy

import "math/rand/v2"

const (
	// widest is how many times what is in flight may be doubled.
	widest = 2
	// enoughTurns and enoughServed are how many turns and I/Os of the device each side of a comparison has, and manyTurns
	// how many turns if it changes nothing.
	enoughTurns, enoughServed, manyTurns = 6, 200, 24
	// slower is how many times as long an I/O may take in the mean while twice as much may be in flight, and fuller how
	// many times as much is in flight then at least, or it was not tried.
	slower, fuller = 1.25, 1.2
	// often is in how many turns another width is tried once.
	often = 2
	// widestPaced, slowerPaced and oftenPaced are the same beside others who use the device at a pace of their own: what
	// they lose is latency, also in turns that only try.
	widestPaced, slowerPaced, oftenPaced = 1, 1.05, 8
)

// width is how much is in flight at the same time. Gate.depth assumes that a device serves one request at a time.
// While the I/Os of a turn, those of others among them, take hardly longer with twice as much in flight, the device
// serves more of them together, and so it is doubled. Like a trial, it compares turns in random order.
type width struct {
	best    int  // how many times it is doubled
	now     int  // the same in the present turn
	down    bool // the next smaller one is compared with it, not the next larger one
	settled bool // the last comparison changed nothing
	sums    [widest + 1]served
}

// room is what others leave for a larger width.
type room struct {
	most   int     // how many times what is in flight may be doubled
	slower float64 // as the constant
	often  uint64  // in how many turns another width is tried once; in eight times as many after it changed nothing
}

// served is what the device did in turns.
type served struct {
	turns, ios  float64
	took        float64 // ns, of all I/Os
	own, flying float64 // own operations that began, and the sum of those in flight then
}

// factor returns how many times as much may be in flight.
func (w *width) factor() int64 { return 1 << w.now }

// next chooses the width of a turn, which is the least while nothing is measured.
func (w *width) next(measured bool, r room) {
	if !measured || r.most == 0 {
		w.now = 0
		return
	}
	if w.best > r.most {
		*w = width{best: r.most}
	}
	odds := r.often
	if w.settled {
		odds = 8 * r.often
	}
	if w.now = w.best; rand.Uint64()%odds == 0 {
		w.now = w.other(r.most)
	}
}

// other returns the width that is compared with the best one, which is at most so large.
func (w *width) other(most int) int {
	if w.best == most || w.down && w.best > 0 {
		return w.best - 1
	}
	return w.best + 1
}

// enter records that an operation begins, and how many are in flight with it.
func (w *width) enter(flying int64) {
	w.sums[w.now].own++
	w.sums[w.now].flying += float64(flying)
}

// note records what the device did in the turn that has ended.
func (w *width) note(done Served, r room) {
	s := &w.sums[w.now]
	s.turns, s.ios, s.took = s.turns+1, s.ios+float64(done.IOs), s.took+float64(done.Took)
	if w.best > r.most || r.most == 0 {
		return
	}
	other := w.other(r.most)
	less, more := w.sums[min(w.best, other)], w.sums[max(w.best, other)]
	if min(less.turns, more.turns) < enoughTurns || min(less.ios, more.ios) < enoughServed {
		return
	}
	together := more.took*less.ios <= r.slower*less.took*more.ios && more.flying*less.own >= fuller*less.flying*more.own
	switch {
	case together == (other > w.best):
		*w = width{best: other}
	case w.settled || min(less.turns, more.turns) >= manyTurns:
		*w = width{best: w.best, settled: true, down: !w.down}
	}
}

// forget starts a comparison again, with less in flight if there was a turn since the last time: others use the device
// in another way.
func (w *width) forget() {
	if *w != (width{best: w.best}) {
		*w = width{best: max(0, w.best-1)}
	}
}
