// Package tune decides, while a backup runs, how many readers, compressors and uploads work at once and how hard is
// compressed. It is the monitor behind the resource-utilization dial: it finds out which stage the others wait for, gives
// that stage more, keeps what raised the throughput and takes back what did not.
//
//	Sample (what one window showed) ──► bottleneck ──► trial: one change, some windows ──► kept or taken back
//
// The package refuses to know what is read, packed or stored, and has no clock and no goroutine: it is called once a
// window with what happened in it.
package tune

import "time"

// Setting is what is decided about.
type Setting struct {
	Readers     int
	Compressors int
	Uploads     int
	Level       int // of compression: a number that grows with the effort
}

// Bounds are the limits of each number of a Setting. Where both are equal nothing is changed.
type Bounds struct{ Least, Most Setting }

// Sample is what happened during one window.
type Sample struct {
	Elapsed time.Duration
	// Work is what passed through, in bytes of the source; see Object for what a file counts besides its bytes.
	Work float64
	// Starved and Blocked are shares of the time of the compressors, 0 to 1: waiting for data to come, and waiting for
	// the target to take what they have.
	Starved, Blocked float64
	// Busy is the share of what the program may use of the processors, 0 to 1, that it did use.
	Busy float64
}

// Object is what one object counts as work, in bytes, besides its content: about what opening and reading a file that is
// not cached costs an SSD. Without it a change from large files to small ones would look like a loss of speed.
const Object = 32 << 10

// idleMuch is the share of the compressors' time, spent waiting for another stage, that makes it the bottleneck.
const idleMuch = 0.10

// busyMuch is the share of the processors from which on they are the bottleneck, whoever waits for whom: then readers and
// compressors wait for each other because neither gets a processor. The rest is lost between the periods of a quota, and
// to the system.
const busyMuch = 0.90

// How long things take, in windows, and what counts as a difference.
const (
	settle   = 1    // after a change, before it is measured: what is under way was begun before
	measure  = 3    // of either side
	gain     = 1.05 // what more workers or a lower level must bring; throughput of unequal files varies by some percent
	loss     = 0.96 // what a higher level may cost: it is for the size
	restMin  = 8    // before something that brought nothing is tried again
	restMost = 128
	spare    = 24 // windows during which a stage was not the bottleneck, before it has to give something back
	sure     = 3  // windows in a row with busy processors, before the level falls
)

// knob is one number of a Setting.
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

// trial is a change whose worth is not known yet.
type trial struct {
	move
	from   int
	before float64 // throughput without it
	known  bool    // it makes work less for sure: what it leads to is looked at
	left   int     // windows until it is judged
	sum    float64
	n      int
}

// rest keeps a move from being tried again and again.
type rest struct{ until, length int }

// Tuner is one run's. It is not safe for concurrent use.
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
	second Bottleneck // what stood in the way of the last trial that failed
}

// New returns a tuner that begins with start, brought within the bounds.
func New(start Setting, b Bounds) *Tuner {
	for k := range knob(knobs) {
		p := start.at(k)
		*p = min(max(*p, *b.Least.at(k)), max(*b.Most.at(k), *b.Least.at(k)))
	}
	return &Tuner{bounds: b, now: start, begun: start.Level, rests: map[move]rest{}}
}

// Setting is what is in force.
func (t *Tuner) Setting() Setting { return t.now }

// Bottleneck is the stage that the others wait for.
type Bottleneck uint8

// The bottlenecks.
const (
	Processors Bottleneck = iota
	Source
	Target
	bottlenecks = iota
)

// String returns the word that records of a run have for it.
func (b Bottleneck) String() string {
	return [bottlenecks]string{"processors", "source", "target"}[b]
}

// saturated reports whether the processors had no more to give.
func (s *Sample) saturated() bool { return s.Busy >= busyMuch }

// Bottleneck names the stage that the others waited for.
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

// Next takes what the last window showed, and returns what is in force from now on.
func (t *Tuner) Next(s Sample) Setting {
	t.window++
	if s.Elapsed <= 0 || s.Work <= 0 {
		return t.now // nothing passed: the window says nothing of speed
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
		t.judge(rate, &s)
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

// need notes which stages could use what they have.
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

// try begins the first sensible change that is not at rest.
func (t *Tuner) try(b Bottleneck) {
	var moves []move
	if t.busy == 0 { // nothing else makes less of the work
		moves = b.relief()
	}
	if b == Source && t.now.Level < t.begun {
		moves = append(moves, move{level, true}) // the processors have time again
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

// relief returns what may help the stage, the cheapest first.
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

// ready reports whether a change is possible and not at rest.
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

// judge ends the trial when enough was seen of it.
func (t *Tuner) judge(rate float64, s *Sample) {
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

// worth reports whether a change is to stay. What makes the backup smaller or gives workers back may stay if it costs
// nothing. Everything else has to bring something: speed, or that another stage is the bottleneck now, since two that are
// nearly equal can only be raised one after the other.
//
// A lower level takes less of the processors for sure, so while they are busy it need not bring anything unless the target
// cannot take what comes of it. Throughput would say less: the next files may be twice as fast, or half, for what they are.
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

// stage is the one that the change is to relieve.
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
