package report

import "time"

// Step is a part of a job with a count of its own, for a job whose total is unknown at the start: what a prune repacks
// is known only after it traversed all snapshots. A nil Step counts nothing.
type Step struct {
	done, bytes Counter
}

// Did adds units of the step and their bytes.
func (s *Step) Did(units, bytes uint64) {
	if s == nil {
		return
	}
	s.done.Add(units)
	s.bytes.Add(bytes)
}

// Course is what a step counts, and how much of it there will be.
type Course struct {
	Unit         string // in the plural: "packs"
	Units, Bytes uint64 // expected; zero: unknown
	Exact        bool   // counted, and not an upper bound
}

// StepTotals is a Step at one moment.
type StepTotals struct {
	Course
	Number      uint64        // of the steps of the job, from 1; 0: there is none now
	Since       time.Duration // when it began, since the start of the job
	Done, Moved uint64        // units, and their bytes
}

// Step begins a phase that is reported as a step, until the next phase or step begins.
func (l *Ledger) Step(p Phase, c Course) *Step {
	l.Phase(p)
	s := &Step{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps++
	l.step, l.course = s, StepTotals{Course: c, Number: l.steps, Since: l.phaseSince}
	return s
}

// stepTotals is the step of this moment; l.mu is held.
func (l *Ledger) stepTotals() StepTotals {
	if l.step == nil {
		return StepTotals{}
	}
	t := l.course
	t.Done, t.Moved = l.step.done.Load(), l.step.bytes.Load()
	return t
}

// Running returns the time of the progress: since the start of the job, or of its step.
func (t *Totals) Running() time.Duration { return t.Elapsed - t.Step.Since }

// stepwise reports whether a job counts by steps, and nothing as a whole.
func (j Kind) stepwise() bool { return j == Prune || j == Copy }

// Counts reports whether something is counted now: a phase of such a job that is no step has nothing to count.
func (t *Totals) Counts() bool { return !t.Job.stepwise() || t.Step.Number > 0 }

// progress is how far a step is.
func (s *StepTotals) progress() Progress {
	return Progress{
		Objects: s.Done, Bytes: s.Moved, Moved: s.Moved, Unit: s.Unit, Exact: s.Exact, Known: s.Units > 0 &&
			(s.Exact || s.Done <= s.Units),
		ObjectsTotal: max(s.Units, s.Done), BytesTotal: max(s.Bytes, s.Moved),
	}
}

// Units names what is counted.
func (p Progress) Units() string {
	if p.Unit == "" {
		return "items"
	}
	return p.Unit
}
