package control

import (
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// LongestTerm is the longest time for which a policy can be set.
const LongestTerm = 365 * 24 * time.Hour

// termStep is the longest time between two looks at the clock. The timers of the runtime stop while the machine
// sleeps, and the wall clock does not.
const termStep = time.Minute

// Term is the time for which a policy takes the place of another, the lasting one. The lock of the job guards it. The
// zero Term is over.
type Term struct {
	until   time.Time // by the wall clock; zero: no term
	lasting iopolicy.Policy
	timer   *time.Timer
}

// Change records that a policy is set for a time, or until the next change if d is 0. held is the policy until now. At
// the end of the time expired is called in a goroutine of its own, which takes the lock of the job and asks Expired.
func (t *Term) Change(held iopolicy.Policy, d time.Duration, expired func()) {
	lasting := held
	if t.Runs() {
		lasting = t.lasting
	}
	t.End()
	if d <= 0 {
		return
	}
	t.until, t.lasting = time.Now().Add(d).Round(0), lasting
	t.timer = time.AfterFunc(min(d, termStep), expired)
}

// Runs reports whether a policy holds for a time.
func (t *Term) Runs() bool { return !t.until.IsZero() }

// Until returns the end of the time, nil if none runs.
func (t *Term) Until() *time.Time {
	if !t.Runs() {
		return nil
	}
	until := t.until
	return &until
}

// Lasting returns the policy that follows the term that runs.
func (t *Term) Lasting() iopolicy.Policy { return t.lasting }

// Follow replaces the policy that follows the term that runs.
func (t *Term) Follow(p iopolicy.Policy) { t.lasting = p }

// End ends the term without a call of expired.
func (t *Term) End() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.until, t.timer = time.Time{}, nil
}

// Expired ends the term if its time is over, and reports whether it did. The caller then applies Lasting.
func (t *Term) Expired() bool {
	if !t.Runs() {
		return false // ended or replaced while its timer fired
	}
	if left := t.until.Sub(time.Now().Round(0)); left > 0 {
		t.timer.Reset(min(left, termStep))
		return false
	}
	t.End()
	return true
}
