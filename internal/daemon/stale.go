package daemon

import (
	"cmp"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// stale reports whether a job, or its group, has no complete backup for too long: for ALERTAFTER, and for some time
// after its schedule had one, so that a weekly job does not count as stale between its times.
func (s *service) stale(j *live, now time.Time) bool {
	newest, since := s.newest(j)
	last := cmp.Or(newest, since)
	limit := j.job.Spec.Notify().AlertAfter
	due := j.job.Schedule.Next(last)
	return limit > 0 && !due.IsZero() && now.Sub(last) > limit && now.Sub(due) > min(limit, day)
}

// Offline returns the state of the jobs as the state folder has it, for a service that does not answer. Without a state
// file, nothing is known of them.
func Offline(dir, host string, jobs []*job.Job, invalid []job.Invalid) ([]event.DaemonJob, error) {
	s := newService(&Config{World: World{Clock: SystemClock{}}, Host: host})
	var err error
	if s.state, err = peekState(dir); err != nil {
		return nil, err
	}
	for _, one := range jobs {
		j := &live{memory: s.remembered(one.Name), job: one}
		j.align(s.Clock.Now())
		j.compare(Damage(one))
		s.jobs = append(s.jobs, j)
	}
	s.invalid = invalid
	all := s.status().Jobs
	for i := range s.jobs {
		if _, held := control.Holder(dir); held {
			break // it does not answer
		}
		s.jobs[i].withoutService(&all[i], s.Clock.Now())
	}
	return all, nil
}

// overdue is the time after which a job that is due without a service is stale: more than cron takes between two starts
// of 'tidemark daemon --once'.
const overdue = 15 * time.Minute

// withoutService describes a job whose state is that of a file, which no process need keep up to date.
func (j *live) withoutService(d *event.DaemonJob, now time.Time) {
	if j.Running != nil {
		d.State = "cut"
	}
	d.Stale = d.Stale || !d.Next.IsZero() && now.Sub(d.Next) > overdue
}
