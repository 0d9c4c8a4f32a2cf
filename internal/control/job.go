package control

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// LongestTerm is the longest time for which a policy can be set.
const LongestTerm = 365 * 24 * time.Hour

// termStep is the longest time between two looks at the clock. The timers of the runtime stop while the machine
// sleeps, and the wall clock does not.
const termStep = time.Minute

// Means are the functions by which a job shows itself and carries out changes. Several goroutines call them at any
// time. They must not wait for the job's own work. Apply and Impact must not call the job.
type Means struct {
	// Show returns what the job does. Its policy and its process are filled in.
	Show func() event.Job
	// Apply has a policy hold. The notes report, for people, what could not be changed. After an error the old one holds.
	Apply func(iopolicy.Policy) (notes []string, err error)
	// Impact changes the part of their speed that others may lose, from 0 to 1; nil: its I/O passes no gate.
	Impact func(part float64)
	// Note reports what happens when a term is over, to people.
	Note func(text string)
	// Silent leaves out the note that a term is over, if nothing went wrong.
	Silent bool
}

// Job is a running job as others see and change it: what it does, and the policy that it holds. A policy that is set
// for a time, the term, takes the place of the lasting one, which returns afterwards.
type Job struct {
	means Means

	mu      sync.Mutex
	policy  iopolicy.Policy // that holds now
	chosen  bool            // a person chose the lasting policy while the job runs
	until   time.Time       // end of the term, by the wall clock; zero: none runs
	lasting iopolicy.Policy // follows the term
	timer   *time.Timer     // of the term
}

// NewJob returns a job that holds a policy.
func NewJob(holds iopolicy.Policy, means Means) *Job { return &Job{policy: holds, means: means} }

// Policy returns the policy that holds now.
func (j *Job) Policy() iopolicy.Policy {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.policy
}

// Status returns the state of the job.
func (j *Job) Status() event.Job {
	s := j.means.Show()
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Policy, s.PolicyUntil = j.policy.String(), j.until
	return s
}

// SetPolicy changes the policy for a time, or until the next change if d is 0. After the time, the policy returns to
// the one before, or to what replaced that meanwhile.
func (j *Job) SetPolicy(p iopolicy.Policy, d time.Duration) (event.PolicyChange, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was, lasting := j.policy, j.policy
	if j.runs() {
		lasting = j.lasting
	}
	notes, err := j.hold(p)
	if err != nil {
		return event.PolicyChange{}, err
	}
	j.endTerm()
	if d > 0 {
		j.until, j.lasting = time.Now().Add(d).Round(0), lasting
		j.timer = time.AfterFunc(min(d, termStep), j.look)
	} else {
		j.chosen = true
	}
	return j.changed(was, notes), nil
}

// ReturnPolicy ends the term; without one, it does nothing.
func (j *Job) ReturnPolicy() (event.PolicyChange, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was := j.policy
	if !j.runs() {
		return j.changed(was, nil), nil
	}
	notes, err := j.hold(j.lasting)
	if err != nil {
		return event.PolicyChange{}, err
	}
	j.endTerm()
	return j.changed(was, notes), nil
}

// Prefer applies the policy that the job itself chooses, or has it follow the term. What a person chose while the job
// runs stays, and is applied again.
func (j *Job) Prefer(p iopolicy.Policy) (notes []string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.chosen:
		p = j.policy
	case j.runs():
		j.lasting, p = p, j.policy
	}
	return j.hold(p)
}

// Finish ends the term, and shows a policy for the rest of the job, which apply applies.
func (j *Job) Finish(p iopolicy.Policy, apply func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endTerm()
	j.policy = p
	apply()
}

// End ends the term with the job. The policy stays.
func (j *Job) End() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endTerm()
}

// hold applies a policy. j.mu is held.
func (j *Job) hold(p iopolicy.Policy) (notes []string, err error) {
	if notes, err = j.means.Apply(p); err == nil {
		j.policy = p
	}
	return notes, err
}

// runs reports whether the policy holds for a time. j.mu is held.
func (j *Job) runs() bool { return !j.until.IsZero() }

// endTerm ends the term. j.mu is held.
func (j *Job) endTerm() {
	if j.timer != nil {
		j.timer.Stop()
	}
	j.until, j.timer = time.Time{}, nil
}

// look returns to the lasting policy if the term is over by now.
func (j *Job) look() {
	for _, note := range j.expire() {
		j.means.Note(note)
	}
}

// expire ends the term if it is over by now, and returns what to report.
func (j *Job) expire() (notes []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.runs() {
		return nil // ended or replaced while its timer fired
	}
	if left := j.until.Sub(time.Now().Round(0)); left > 0 {
		j.timer.Reset(min(left, termStep))
		return nil
	}
	j.endTerm()
	was := j.policy
	notes, err := j.hold(j.lasting)
	switch {
	case err != nil:
		return append(notes, "the policy is still "+was.String()+": "+err.Error())
	case j.means.Silent:
		return notes
	}
	return append([]string{"the policy is " + j.policy.String() + " again, it was " + was.String() + " for a time"},
		notes...)
}
