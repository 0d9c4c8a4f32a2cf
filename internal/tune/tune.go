// Package tune decides, while a backup runs, how many readers, compressors and uploads work at once and how hard is
// compressed. It finds the bottleneck stage, gives it more workers, keeps a change that raised the throughput, and
// undoes one that did not.
//
//	Sample (what one window showed) ──► bottleneck ──► trial: one change, some windows ──► kept or taken back
//
// The package has no clock and no goroutine: its caller passes one Sample for each window.
package tune

import "time"

// Setting is the set of tuned values.
type Setting struct {
	Readers     int
	Compressors int
	Uploads     int
	Level       int // of compression effort
}

// Bounds are the limits of each value of a Setting. Equal limits fix a value.
type Bounds struct{ Least, Most Setting }

// Sample is what happened during one window.
type Sample struct {
	Elapsed time.Duration
	// Work is the throughput in bytes of the source, plus Object for each file.
	Work float64
	// Starved and Blocked are shares of the compressors' time, 0 to 1: waiting for input, and waiting for the target.
	Starved, Blocked float64
	// Busy is the used share of the available processor time while I/O went on, 0 to 1.
	Busy float64
}

// Object is the work of one object besides its content, in bytes: about the cost of opening and reading an uncached
// file on an SSD. Without it, a change from large files to small ones would appear as a loss of speed.
const Object = 32 << 10

// idleMuch is the share of the compressors' time waiting for another stage that makes that stage the bottleneck.
const idleMuch = 0.10

// busyMuch is the share of the processors at which they are the bottleneck, whatever the stages wait for: readers and
// compressors then wait for each other because neither gets a processor. The rest is lost to the system and between the
// periods of a quota.
const busyMuch = 0.90

// Durations in windows, and significant differences.
const (
	settle   = 1    // after a change, before it is measured: work in progress began before it
	measure  = 3    // of either side
	gain     = 1.05 // least gain of more workers or a lower level; throughput varies by some percent with the files
	loss     = 0.96 // largest cost of a higher level, which reduces the size
	restMin  = 8    // before a change without a gain is tried again
	restMost = 128
	spare    = 24 // windows without being the bottleneck, before a stage loses workers
	sure     = 3  // windows in a row with busy processors, before the level falls
)

// knob is one value of a Setting.
type knob int

const (
	readers knob = iota
	compressors
	uploads
	level
	knobs = iota
)

func (s *Setting) at(k knob) *int {
	return [knobs]*int{&s.Readers, &s.Compressors, &s.Uploads, &s.Level}[k]
}

// move is a change in one direction.
type move struct {
	knob knob
	up   bool
}

// trial is a change under measurement.
type trial struct {
	move
	from   int
	before float64 // throughput without it
	known  bool    // it reduces work for certain: only its consequence is checked
	left   int     // windows until it is judged
	sum    float64
	n      int
}

// rest delays the repetition of a move.
type rest struct{ until, length int }

// Tuner tunes one run. It is not safe for concurrent use.
type Tuner struct {
	bounds Bounds
	now    Setting
	begun  int // the level at the start
	window int
	recent []float64 // throughput of the last windows without a change
	trial  *trial
	rests  map[move]rest
	needed [knobs]int // the last window in which the knob's stage was the bottleneck
	last   Bottleneck
	same   int        // windows in a row with the same bottleneck
	busy   int        // windows in a row with busy processors
	second Bottleneck // the bottleneck during the last failed trial
}

// New returns a tuner that begins with start, brought within the bounds.
func New(start Setting, b Bounds) *Tuner {
	for k := range knob(knobs) {
		p := start.at(k)
		*p = min(max(*p, *b.Least.at(k)), max(*b.Most.at(k), *b.Least.at(k)))
	}
	return &Tuner{bounds: b, now: start, begun: start.Level, rests: map[move]rest{}}
}

// Bottleneck is the stage that the others wait for.
type Bottleneck uint8

// The bottlenecks.
const (
	Processors Bottleneck = iota
	Source
	Target
	bottlenecks = iota
)

// String returns the word in records of a run.
func (b Bottleneck) String() string {
	return [bottlenecks]string{"processors", "source", "target"}[b]
}

// saturated reports whether the processors were fully used.
func (s *Sample) saturated() bool { return s.Busy >= busyMuch }

// Bottleneck returns the stage that the others waited for.
func (s *Sample) Bottleneck() Bottleneck {
	switch {
	case s.saturated():
		return Processors
	case s.Blocked >= idleMuch && s.Blocked >= s.Starved:
		return Target
	case s.Starved >= idleMuch:
		return Source
	}
	return Processors
}

// Next takes the last window and returns the values from now on.
func (t *Tuner) Next(s Sample) Setting {
	t.window++
	if s.Elapsed <= 0 || s.Work <= 0 {
		return t.now // no throughput to compare
	}
	rate := s.Work / s.Elapsed.Seconds()
	b := s.Bottleneck()
	if b == t.last {
		t.same++
	} else {
		t.last, t.same = b, 1
	}
	if t.busy++; !s.saturated() {
		t.busy = 0
	}
	t.need(b)
	if t.trial != nil {
		t.evaluate(rate, &s)
		return t.now
	}
	if t.recent = append(t.recent, rate); len(t.recent) > measure {
		t.recent = t.recent[1:]
	}
	switch m := (move{level, false}); {
	case t.busy >= sure && t.ready(m):
		t.begin(m)
		t.trial.known = true
	case len(t.recent) == measure && t.same >= 2:
		t.try(b)
	}
	return t.now
}

// need records which stages use their workers.
func (t *Tuner) need(b Bottleneck) {
	switch b {
	case Source:
		t.needed[readers] = t.window
	case Processors:
		t.needed[compressors] = t.window
	case Target:
		t.needed[uploads] = t.window
	}
}

// try begins the first useful change that is not resting.
func (t *Tuner) try(b Bottleneck) {
	var moves []move
	if t.busy == 0 { // no other change reduces work
		moves = b.relief()
	}
	if b == Source && t.now.Level < t.begun {
		moves = append(moves, move{level, true}) // the processors are no longer busy
	}
	if t.second != b {
		moves = append(moves, t.second.relief()...)
	}
	for k, since := range t.needed[:level] {
		if t.busy == 0 && t.window-since >= spare {
			moves = append(moves, move{knob(k), false})
		}
	}
	for _, m := range moves {
		if t.ready(m) {
			t.begin(m)
			return
		}
	}
}

// relief returns changes that may help the stage, the cheapest first.
func (b Bottleneck) relief() []move {
	switch b {
	case Source:
		return []move{{readers, true}}
	case Target:
		return []move{{uploads, true}, {level, true}}
	case Processors:
	}
	return []move{{compressors, true}, {level, false}}
}

// ready reports whether a change is possible and not resting.
func (t *Tuner) ready(m move) bool {
	if t.window < t.rests[m].until {
		return false
	}
	if m.up {
		return *t.now.at(m.knob) < *t.bounds.Most.at(m.knob)
	}
	return *t.now.at(m.knob) > *t.bounds.Least.at(m.knob)
}

func (t *Tuner) begin(m move) {
	p := t.now.at(m.knob)
	t.trial = &trial{move: m, from: *p, before: mean(t.recent), left: settle + measure}
	step := 1
	if m.knob != level {
		step = max(1, *p/2) // 1, 2, 3, 4, 6, 9, 13: few trials to any number
	}
	if m.up {
		*p = min(*p+step, *t.bounds.Most.at(m.knob))
	} else {
		*p = max(*p-step, *t.bounds.Least.at(m.knob))
	}
	t.recent = t.recent[:0]
}

// evaluate ends the trial after enough windows.
func (t *Tuner) evaluate(rate float64, s *Sample) {
	tr := t.trial
	if tr.left--; tr.left < measure {
		tr.sum += rate
		tr.n++
	}
	if tr.left > 0 {
		return
	}
	t.trial = nil
	got := tr.sum / float64(tr.n)
	t.second = s.Bottleneck()
	if tr.worth(got, s) {
		delete(t.rests, tr.move)
		t.recent = append(t.recent[:0], got)
		return
	}
	*t.now.at(tr.knob) = tr.from
	r := t.rests[tr.move]
	r.length = min(max(2*r.length, restMin), restMost)
	r.until = t.window + r.length
	t.rests[tr.move] = r
}

// worth reports whether a change stays. One that makes the backup smaller or releases workers stays unless it costs
// speed. Any other must gain speed, or move the bottleneck to another stage, since two nearly equal ones can only be
// raised in turn.
//
// A lower level certainly needs less processor time, so while they are busy it stays unless the target becomes the
// bottleneck. Throughput is a weaker measure: the next files may be twice as fast, or half, by their contents.
func (tr *trial) worth(got float64, s *Sample) bool {
	if tr.known {
		return s.Bottleneck() != Target || got >= tr.before*gain
	}
	giving := tr.up == (tr.knob == level)
	if giving {
		return got >= tr.before*loss || tr.knob == level && s.Bottleneck() == Target
	}
	return got >= tr.before*gain || got >= tr.before*loss && s.Bottleneck() != tr.stage()
}

// stage returns the stage that the change relieves.
func (m move) stage() Bottleneck {
	return [knobs]Bottleneck{Source, Processors, Target, Processors}[m.knob]
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
