package daemon

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

const (
	// longestPause bounds the pause between two tries.
	longestPause = time.Hour
	// late is the delay from which a run counts as missed.
	late = 5 * time.Minute
	// day bounds how far in the future a remembered time can be before it counts as now, and how often silence is
	// reported.
	day = 24 * time.Hour
)

// jitter returns how much later than its schedule a job starts: at most half a period.
func jitter(j *job.Job, host string, period time.Duration) time.Duration {
	return job.Jitter(host, j.Stanza(), min(j.Spec.Job().Jitter, period/2)).Truncate(time.Second)
}

// period returns the time between two runs after t; a day if there are not two.
func period(s job.Schedule, t time.Time) time.Duration {
	first := s.Next(t)
	if first.IsZero() {
		return day
	}
	second := s.Next(first)
	if second.IsZero() {
		return day
	}
	return second.Sub(first)
}

// next returns when a job is due by its schedule, counted from the begin of its last run; zero: never.
func (s *service) next(j *live) time.Time {
	at := j.job.Schedule.Next(j.Began)
	if at.IsZero() {
		return at
	}
	return at.Add(jitter(j.job, s.Host, period(j.job.Schedule, j.Began)))
}

// backoff returns the pause after a number of failures: 1, 2, 4 ... 60 minutes.
func backoff(failures int) time.Duration {
	pause := time.Minute
	for range min(failures-1, 6) {
		pause *= 2
	}
	return min(pause, longestPause)
}

// correct replaces times of the future, which a clock that stepped back has left. A time less than a period ahead
// stays, so that a small step back repeats no run.
func (m *memory) correct(s job.Schedule, now time.Time) {
	limit := now.Add(min(period(s, now), day))
	for _, t := range []*time.Time{&m.Since, &m.Began, &m.LastBackup, &m.LastProven, &m.Pruned, &m.Checked, &m.Drilled,
		&m.Alerted} {
		if t.After(limit) {
			*t = now
		}
	}
	if m.Retry.After(now.Add(longestPause)) {
		m.Retry = now
	}
}

// dueTime returns when a job that does not run is due next, and why; zero: never.
func (s *service) dueTime(j *live) (at time.Time, trigger event.Trigger) {
	at, trigger = s.next(j), event.BySchedule
	if !j.Retry.IsZero() && (at.IsZero() || !j.Retry.After(at)) {
		return j.Retry, event.Retried
	}
	return at, trigger
}

// notice marks the jobs that have become due.
func (s *service) notice(now time.Time) {
	for _, j := range s.jobs {
		j.correct(j.job.Schedule, now)
		if j.run != nil || !j.due.IsZero() {
			continue
		}
		at, trigger := s.dueTime(j)
		if at.IsZero() || at.After(now) {
			continue
		}
		if trigger == event.BySchedule && now.Sub(at) > late {
			trigger = event.Missed
		}
		j.due, j.trigger = at, trigger
	}
}

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
		if mate.run == nil && mate.Retry.IsZero() && mate.due.IsZero() {
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
