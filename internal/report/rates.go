package report

import (
	"math"
	"slices"
	"time"
)

const (
	// rateWindow is how far back "now" reaches in a rate.
	rateWindow = 5 * time.Second
	// memoryHalf is the time after which an observation counts half in the estimate of the time left: long enough not
	// to jump at every large file, short enough to follow a change from small files to large ones.
	memoryHalf = 30 * time.Second
	// estimateAfter is how long a job runs before its time left is estimated at all.
	estimateAfter = 3 * time.Second
)

// Progress is how far a job is, in the objects and bytes that fit the job.
type Progress struct {
	Objects, Bytes           uint64 // dealt with
	ObjectsTotal, BytesTotal uint64 // expected, never less than what is dealt with or waits to be
	Moved                    uint64 // bytes that took effort: what a rate in bytes is about
	Outstanding              uint64 // backup: bytes that must be read and have not been
	Known                    bool   // the totals are not merely what was found so far
	Exact                    bool   // they were counted, and are no estimate
	Growing                  bool   // they are what a counting walk has found so far: a lower bound
	Unit                     string // of the objects, in the plural; empty: objects of all kinds
}

// Progress returns how far the job is.
func (t *Totals) Progress() Progress {
	var p Progress
	if t.Job.stepwise() {
		return t.Step.progress()
	}
	switch t.Job {
	case Backup:
		p.Objects = t.Objects.Inspected
		p.Outstanding = minus(t.Bytes.Wanted, t.Bytes.Read+t.Bytes.Skipped)
		p.Bytes = minus(t.Bytes.Inspected, p.Outstanding+t.toUpload())
		p.Moved = t.Bytes.Read
	case Restore:
		p.Objects = t.Objects.Restored + t.Objects.Kept
		p.Bytes, p.Moved = t.Bytes.Restored, t.Bytes.Restored
	case Check:
		p.Objects = t.Objects.Verified + t.Objects.Damaged
		p.Bytes, p.Moved = t.Bytes.Verified, t.Bytes.Verified
	}
	e := t.Expected
	p.ObjectsTotal = max(e.Objects, p.Objects)
	p.BytesTotal = max(e.Bytes, p.Bytes+p.Outstanding+t.toUpload())
	p.Exact, p.Growing = e.Exact, e.Growing && p.Objects < e.Objects
	// A tree that has outgrown its estimate is of unknown size until the scan is over.
	p.Known = e.Exact || e.Objects > 0 && !e.Growing && p.Objects <= e.Objects
	if t.Job == Check && t.Phase == Checking {
		p.Known = false // folders are found by following others: what was found so far is nearly done at every moment
	}
	return p
}

// Ratio is the part that is done, 0 to 1; 0 while nothing is known about the whole. Of a growing whole it is an upper
// bound.
func (p Progress) Ratio() float64 {
	switch {
	case !p.Known && !p.Growing:
		return 0
	case p.BytesTotal > 0:
		return min(1, float64(p.Bytes)/float64(p.BytesTotal))
	case p.ObjectsTotal > 0:
		return min(1, float64(p.Objects)/float64(p.ObjectsTotal))
	}
	return 0
}

// Speeds is what can be said about a job's speed at one moment.
type Speeds struct {
	Bytes, BytesAverage float64       // bytes per second that were read (restore: restored; check: verified)
	Items, ItemsAverage float64       // objects per second that were dealt with
	Left                time.Duration // estimated time to the end; negative if it cannot be estimated
	Limit               Resource      // what holds the job up most now; Nothing: nothing was going on
	Stalled             []float64     // for each gate, the part of the last seconds in which the job slept
}

// Meter turns a series of snapshots into speeds. It is not safe for concurrent use; every reader has its own.
type Meter struct {
	window []observation // oldest first; spans rateWindow
	step   uint64        // the number of the step that all this is about
	items  decaying
	reads  decaying
}

type observation struct {
	at             time.Duration
	objects, moved uint64
	stages         StageTimes
	gates          []Gate
	limited        time.Duration
}

// decaying is an amount and the time it took, both fading with age.
type decaying struct{ amount, seconds float64 }

func (d *decaying) add(amount, seconds float64) {
	fade := math.Exp2(-seconds / memoryHalf.Seconds())
	d.amount = d.amount*fade + amount
	d.seconds = d.seconds*fade + seconds
}

// time returns how long amount would take; infinite if there was no progress.
func (d *decaying) time(amount uint64) float64 {
	if amount == 0 {
		return 0
	}
	return float64(amount) * d.seconds / d.amount
}

// Observe takes the next snapshot and returns the speeds as of it. Snapshots should come a few times in rateWindow.
func (m *Meter) Observe(t *Totals) Speeds {
	p := t.Progress()
	if t.Step.Number != m.step || t.Job.stepwise() && t.Step.Number == 0 {
		m.begin(t)
	}
	o := observation{at: t.Elapsed, objects: p.Objects, moved: p.Moved, stages: t.Stages, gates: t.Gates,
		limited: t.Limited}
	var last observation // all zero at the start of the job
	if len(m.window) > 0 {
		last = m.window[len(m.window)-1]
	}
	if dt := (o.at - last.at).Seconds(); dt > 0 {
		m.items.add(float64(minus(o.objects, last.objects)), dt)
		// Time in which there was nothing to read says nothing about the speed of reading.
		if read := minus(o.moved, last.moved); read > 0 || p.Outstanding > 0 {
			m.reads.add(float64(read), dt)
		}
	}
	if len(m.window) == 0 {
		m.window = append(m.window, observation{})
	}
	m.window = append(m.window, o)
	for len(m.window) > 2 && o.at-m.window[1].at >= rateWindow {
		m.window = m.window[1:]
	}
	return m.speeds(t, p)
}

// begin forgets all but what the workers have done so far: what is counted from now on is something else.
func (m *Meter) begin(t *Totals) {
	start := observation{at: t.Step.Since}
	if len(m.window) > 0 {
		last := m.window[len(m.window)-1]
		start.stages, start.gates, start.limited = last.stages, last.gates, last.limited
	}
	if t.Step.Number == 0 {
		start.at = t.Elapsed
	}
	*m = Meter{step: t.Step.Number, window: []observation{start}}
}

func (m *Meter) speeds(t *Totals, p Progress) Speeds {
	first, last := m.window[0], m.window[len(m.window)-1]
	s := Speeds{Left: m.left(t, p)}
	if dt := (last.at - first.at).Seconds(); dt > 0 {
		s.Bytes = float64(minus(last.moved, first.moved)) / dt
		s.Items = float64(minus(last.objects, first.objects)) / dt
		for _, g := range GatesSince(last.gates, first.gates) {
			s.Stalled = append(s.Stalled, min(1, g.Held.Seconds()/dt))
		}
	}
	s.BytesAverage, s.ItemsAverage = PerSecond(p.Moved, t.Running()), PerSecond(p.Objects, t.Running())
	s.Limit = LimitedBy(last.stages.Minus(first.stages), last.limited-first.limited, last.at-first.at)
	if s.Limit == Computing && len(s.Stalled) > 0 && slices.Max(s.Stalled) > 0.5 {
		s.Limit = Nothing // a sleeping worker uses no processor: the gates limit the job, as in StoodStill
	}
	if t.Outage.Why != "" {
		s.Limit, s.Left = Answer, -1
	}
	if s.Limit == Repository && last.moved == first.moved && last.objects == first.objects {
		s.Left = -1 // the repository may be away
	}
	return s
}

// left estimates the time to the end, in seconds: the longer of two, since inspecting and moving data overlap. Objects
// still to be inspected pass at the speed of late. Bytes still to be moved are, in a backup, those known to be new
// plus, of what has not been inspected, the part that was new in what has; they pass at the speed at which bytes moved
// while there were any. So a tree with 1 % of changes is not waited for as if all of it had to be read.
func (m *Meter) left(t *Totals, p Progress) time.Duration {
	if !p.Known && !p.Growing || t.Running() < estimateAfter || t.Phase == Done {
		return -1
	}
	bytes := p.BytesTotal - p.Bytes
	if t.Job == Backup {
		bytes = p.Outstanding
		if t.Bytes.Inspected > 0 {
			ahead := float64(minus(p.BytesTotal, t.Bytes.Inspected))
			bytes += uint64(ahead * min(1, float64(t.Bytes.Wanted)/float64(t.Bytes.Inspected)))
		}
	}
	items := m.items.time(p.ObjectsTotal - p.Objects)
	if t.Step.Number > 0 && p.BytesTotal > 0 {
		items = 0 // the units of a step differ in size: its bytes are the better measure
	}
	seconds := max(items, m.reads.time(bytes))
	if n := t.toUpload(); n > 0 {
		seconds += float64(n) / float64(t.Limits.Upload)
	}
	if !(seconds < 1e9) { // also not-a-number: nothing was seen to move yet
		return -1
	}
	return time.Duration(seconds * float64(time.Second))
}

// minus is a - b, or 0 if that would be negative: counters are read one after another.
func minus(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// PerSecond is n divided by the seconds of d; 0 if d is not positive.
func PerSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
