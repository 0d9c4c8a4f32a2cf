package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// sourceAway reports whether nothing of a source is in the snapshot.
func sourceAway(s *event.Source) bool {
	return s.State == "missing" || s.State == "unreadable" || s.State == "empty"
}

// conclude sets the outcome of a run that has ended and what follows from it: whether and when it is tried again, what
// counts as the last backup, and of what people are notified. Only this function decides that.
func (m *memory) conclude(r *run, now time.Time) {
	m.Alert = ""
	switch r.rec.End = now; {
	case r.end == stopped:
		r.rec.Outcome, r.rec.Message = record.Stopped, "stopped by hand"
		return
	case r.end == ending || r.end == suspended:
		r.rec.Outcome, r.rec.Message = record.Stopped, "the service ended"
		m.Retry = now // at its next start
		return
	case r.failure != "":
		r.rec.Outcome, r.rec.Message = record.Failed, r.failure
		m.Failures++
		if r.retry {
			m.Retry = now.Add(backoff(m.Failures))
		}
		if r.backup == exitIncomplete {
			r.rec.Message += "\n" + r.lacks
		}
		cause := record.Failed
		if m.Damage != "" {
			cause = "damaged" + r.away() // another cause than a failure before
		}
		m.alert(record.Failed, cause)
	case r.backup == exitIncomplete:
		r.rec.Outcome, r.rec.Message = record.Incomplete, r.lacks
		m.Failures = 0
		m.Incomplete++
		switch away := r.away(); {
		case away != "":
			m.alert(record.Incomplete, away) // another source is another cause
		case m.Incomplete > 1:
			m.alert(record.Incomplete, record.Incomplete)
		}
	default:
		r.rec.Outcome = record.Done
		if why := r.keeps(); why != "" {
			r.rec.Message = why + ", so KEEPSNAPSHOTS removes nothing"
		}
		m.Failures, m.Incomplete = 0, 0
		if m.Cause != "" {
			m.Alert, m.Cause = record.Recovered, ""
		}
	}
}

// alert has people notified of an outcome, unless they were of the same cause since the last run without a fault.
func (m *memory) alert(outcome, cause string) {
	if m.Cause != cause {
		m.Alert, m.Cause = outcome, cause
	}
}

// away names the sources that have nothing in the snapshot; "" if there is none.
func (r *run) away() string {
	var all []string
	for i := range r.sources {
		if s := &r.sources[i]; sourceAway(s) {
			all = append(all, "source "+s.Text+" is "+s.State)
		}
	}
	return strings.Join(all, "\n")
}

// keeps returns why the run removes no snapshots; "" if it may. After a backup for which there is no room, it may.
func (r *run) keeps() string {
	switch {
	case r.waits != "":
		return r.waits
	case r.saved() && !r.complete():
		return "the snapshot is incomplete"
	}
	return ""
}

// describeLack returns what a snapshot lacks: whole sources, and the first objects.
func (r *run) describeLack(message string, f *Failures) string {
	parts := f.words(r.rec.ID)
	if away := r.away(); away != "" {
		parts = append([]string{away}, parts...)
	}
	if len(parts) == 0 {
		parts = append(parts, message)
	}
	if !strings.EqualFold(r.job.Spec.Job().Keep, "all") {
		parts = append(parts, "KEEPSNAPSHOTS removes nothing while the snapshot is incomplete")
	}
	return strings.Join(parts, "\n")
}

// words returns the first objects, and where all are listed.
func (f *Failures) words(run string) []string {
	if f.Count == 0 {
		return nil
	}
	parts := slices.Clone(f.First)
	if more := f.Count - uint64(len(f.First)); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return append(parts, fmt.Sprintf("'tidemark log --run %s --failed' lists them", run))
}
