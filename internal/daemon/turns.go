package daemon

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Several repositories of one job are jobs of one group, which are due at the same time.

// mates returns the other jobs of a group.
func (s *service) mates(j *live) (all []*live) {
	for _, o := range s.jobs {
		if o != j && o.job.Group != "" && o.job.Group == j.job.Group && !o.job.Copies && !j.job.Copies {
			all = append(all, o)
		}
	}
	return all
}

// takeTurns leaves one due job of each group: of those that can run, the one whose last backup is the oldest. Others
// that can run wait for the next time of the schedule. Those that cannot run stay due.
func (s *service) takeTurns(now time.Time) {
	ready := func(j *live) bool { return j.run == nil && !j.due.IsZero() && s.blocked(j, now) == (obstacle{}) }
	for _, j := range s.jobs {
		for _, mate := range s.mates(j) {
			if !ready(j) {
				break
			}
			runs := mate.run != nil && j.trigger != event.ByHand
			if runs || ready(mate) && mate.LastBackup.Before(j.LastBackup) {
				s.drop(j, now)
			} else if ready(mate) {
				s.drop(mate, now)
			}
		}
	}
}

// passOn lets the others of a group run after one that did not reach its repository. It is no reason for a notification
// while another of the group can run and does not fail.
func (s *service) passOn(j *live, trigger event.Trigger) {
	if !j.Away {
		return
	}
	now := s.Clock.Now()
	for _, mate := range s.mates(j) {
		if mate.Failures == 0 && s.blocked(mate, now) == (obstacle{}) {
			j.Alert, j.Cause = "", ""
		}
		if mate.run == nil && mate.Retry == nil && mate.due.IsZero() {
			mate.due, mate.trigger = now, trigger
		}
	}
}

// newest returns the time of the last complete backup of a job or of its group, and since when the service knows it.
func (s *service) newest(j *live) (last, since time.Time) {
	last, since = j.LastBackup, j.Since
	for _, mate := range s.mates(j) {
		if mate.LastBackup.After(last) {
			last = mate.LastBackup
		}
		if mate.Since.Before(since) {
			since = mate.Since
		}
	}
	return last, since
}

// passCopies lets the job that copies the snapshots of another one run after it.
func (s *service) passCopies(j *live, r *run) {
	for _, o := range s.jobs {
		if o.job.Copies && o.job.Group == j.job.Name && r.saved() && o.run == nil && o.due.IsZero() && !j.job.Copies {
			o.due, o.trigger = s.Clock.Now(), r.rec.Trigger
		}
	}
}
