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
	if m.Retry != nil && m.Retry.After(now.Add(longestPause)) {
		m.Retry = &now
	}
}

// dueTime returns when a job that does not run is due next, and why; zero: never.
func (s *service) dueTime(j *live) (at time.Time, trigger event.Trigger) {
	at, trigger = s.next(j), event.BySchedule
	if j.Retry != nil && (at.IsZero() || !j.Retry.After(at)) {
		return *j.Retry, event.Retried
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
