package daemon

import (
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// watch measures how long a run takes, and how long its step makes no progress. Time counts while steps run: not while
// the run waits or the machine sleeps, and a step of the clock counts as at most two ticks.
type watch struct {
	seen     time.Time     // when the run was looked at last; zero: no step ran
	ran      time.Duration // of all steps
	over     bool          // the run took too long: no further step begins
	step     time.Time     // the start of the step that the rest is about
	reached  string        // how far it is
	idle     time.Duration // without progress
	reported bool
}

// reached is how far a step is: its phase and its figures.
func reached(s *event.Status) string {
	if s == nil {
		return ""
	}
	skipped := uint64(0)
	if s.FilesSkipped != nil {
		skipped = *s.FilesSkipped
	}
	return fmt.Sprintln(s.Phase, s.FilesDone, s.BytesDone, s.BytesRead, s.BytesTransferred, s.ErrorCount, skipped)
}

// watchRuns ends runs that take longer than max-run-time, and reports steps without progress for stall-after.
func (s *service) watchRuns(now time.Time) {
	for _, j := range s.all() {
		r := j.run
		if r == nil {
			continue
		}
		if r.process == nil {
			r.watch.seen = time.Time{}
			continue
		}
		o := r.job.Spec.Job()
		r.look(now)
		if w := &r.watch; o.MaxRunTime > 0 && w.ran >= o.MaxRunTime && !w.over {
			w.over = true
			if r.failure == "" {
				r.failure = fmt.Sprintf("%s: ended, since the run took longer than MAXRUNTIME, %s", r.step.Name, o.MaxRunTime)
			}
			r.process.Stop()
		}
		if w := &r.watch; o.StallAfter > 0 && w.idle >= o.StallAfter && !w.reported {
			w.reported = true
			s.send(&record.Event{Kind: record.Stalled, Job: j.job.Name, Step: r.step.Name, Run: r.copy(),
				Text: "for " + w.idle.Round(time.Second).String() + ", longer than STALLAFTER"})
		}
	}
}

// look counts the time since the last look.
func (r *run) look(now time.Time) {
	w := &r.watch
	passed := time.Duration(0)
	if !w.seen.IsZero() {
		passed = min(max(0, now.Sub(w.seen)), 2*tick)
	}
	w.seen = now
	w.ran += passed
	w.idle += passed
	if at := reached(r.status.Load()); at != w.reached || !r.stepStart.Equal(w.step) {
		w.reached, w.step, w.idle, w.reported = at, r.stepStart, 0, false
	}
}

// untilWatched returns how long the loop may sleep so that no limit of a run is missed by much.
func (s *service) untilWatched(d time.Duration) time.Duration {
	for _, j := range s.steps() {
		o, w := j.run.job.Spec.Job(), &j.run.watch
		for _, left := range []time.Duration{o.MaxRunTime - w.ran, o.StallAfter - w.idle} {
			if left > 0 {
				d = min(d, left)
			}
		}
	}
	return d
}
