package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// serveOrder carries out an order of the socket.
func (s *service) serveOrder(o control.Command) (event.Daemon, error) {
	if o.Action != control.CheckAccess {
		return s.order(o)
	}
	d, err := s.order(control.Command{Action: control.ShowStatus})
	if err == nil && s.Access != nil {
		d.Access = s.Access() // outside the loop, which does not wait for servers
	}
	return d, err
}

// order has the loop carry out an order.
func (s *service) order(o control.Command) (d event.Daemon, err error) {
	answered := make(chan struct{})
	select {
	case s.calls <- func() { d, err = s.carryOut(o); close(answered) }:
	case <-s.done:
		return event.Daemon{}, errors.New("the service ends")
	case <-time.After(patience):
		return event.Daemon{}, errors.New("the service is busy; try again")
	}
	<-answered // the loop answers each order it has taken
	return d, err
}

// carryOut carries out an order and returns the state afterwards.
func (s *service) carryOut(o control.Command) (event.Daemon, error) {
	now := s.Clock.Now()
	var err error
	switch o.Action {
	case control.ShowStatus:
	case control.Accelerate:
		s.accelerate(o.Until)
	case control.Reload:
		err = s.reloadNow(o.Job)
	case control.StartJob:
		err = s.each(o, s.startByHand)
	case control.StopJob:
		err = s.each(o, s.stopByHand)
	case control.PauseJob:
		if !o.Until.IsZero() && !o.Until.After(now) {
			return event.Daemon{}, fmt.Errorf("the pause would end at %s, which is over", o.Until.Format(time.DateTime))
		}
		err = s.each(o, func(j *live) error { j.Paused, j.PausedUntil = true, o.Until; return nil })
	case control.ResumeJob:
		err = s.each(o, resumeByHand)
	}
	if err != nil {
		return event.Daemon{}, err
	}
	if o.Action != control.ShowStatus {
		s.save()
		s.round()
	}
	return s.status(), nil
}

// each applies an order to one job, a group, or all. Those of several to which it does not apply are left out.
func (s *service) each(o control.Command, do func(*live) error) error {
	if s.stopping {
		return errors.New("the service ends")
	}
	if o.Job == "" {
		for _, j := range s.jobs {
			_ = do(j) // it does not apply
		}
		return nil
	}
	var names []string
	var errs []error
	for _, j := range s.jobs {
		if strings.EqualFold(j.job.Name, o.Job) {
			return do(j)
		}
		if strings.EqualFold(j.job.Group, o.Job) {
			errs = append(errs, do(j))
		}
		names = append(names, j.job.Name)
	}
	for _, one := range s.invalid {
		if strings.EqualFold(one.Name, o.Job) {
			return fmt.Errorf("job %s is not valid: %w", one.Name, one.Err)
		}
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	if len(errs) > 0 {
		return errs[0]
	}
	if len(names) == 0 {
		return fmt.Errorf("no job %q: there are no jobs", o.Job)
	}
	return fmt.Errorf("no job %q: there are %s", o.Job, strings.Join(names, ", "))
}

func (s *service) startByHand(j *live) error {
	switch {
	case j.Paused:
		return fmt.Errorf("job %s is paused: 'tidemark job resume %s' first", j.job.Name, j.job.Name)
	case j.runs():
		return fmt.Errorf("job %s is running already", j.job.Name)
	case j.run != nil: // it goes on now
		j.run.rec.Trigger = event.ByHand
	default:
		j.due, j.trigger = s.Clock.Now(), event.ByHand
	}
	return nil
}

func (s *service) stopByHand(j *live) error {
	switch {
	case j.runs():
		j.run.end = stopped
		j.run.process.Stop()
	case j.run != nil:
		j.run.end = stopped
		s.finish(j)
	case !j.due.IsZero() || !j.Retry.IsZero():
		s.drop(j, s.Clock.Now())
	default:
		return fmt.Errorf("job %s does not run", j.job.Name)
	}
	return nil
}

func resumeByHand(j *live) error {
	if !j.Paused {
		return fmt.Errorf("job %s is not paused", j.job.Name)
	}
	j.Paused, j.PausedUntil = false, time.Time{}
	return nil
}

// endPauses ends pauses whose time is over.
func (s *service) endPauses(now time.Time) {
	for _, j := range s.jobs {
		if j.Paused && !j.PausedUntil.IsZero() && !j.PausedUntil.After(now) {
			_ = resumeByHand(j) // it is paused
			s.save()
		}
	}
}

// status returns the state of the service.
func (s *service) status() event.Daemon {
	now := s.Clock.Now()
	d := event.Daemon{PID: os.Getpid(), Start: s.begun, Options: s.OptionFile, Problem: s.problem,
		Jobs: []event.DaemonJob{}}
	for _, j := range slices.Concat(s.jobs, s.left) {
		s.look(j)
		d.Jobs = append(d.Jobs, s.describe(j, now))
	}
	d.Jobs = append(d.Jobs, s.describeInvalid()...)
	return d
}
