package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// tick is the longest time between two looks at clock, option file and machine.
const tick = time.Minute

// service is a running service. Only the loop uses it.
type service struct {
	*Config
	begun time.Time
	jobs  []*live // in the order of the option file
	left  []*live // their runs go on after they left the option file
	state state
	calls chan func()   // what the loop is to do
	done  chan struct{} // closed when the loop ends

	power      *machinestate.Power // of this round; nil: not asked yet
	asleep     time.Time           // the machine is about to sleep, since; zero: it is awake
	awake      func()              // ends the inhibition of sleep; nil: there is none
	faster     context.Context     // steps have the policy important until its deadline; nil: they have not
	slower     func()              // ends that
	stopping   bool                // the service ends
	failed     []string            // jobs with a run that failed
	incomplete []string            // jobs with a run whose snapshot lacks objects
	unsaved    bool                // the last write of the state failed

	read    stamp         // the version of the option file that was read last
	problem string        // why none of its jobs can be used; "": they can
	invalid []job.Invalid // its jobs without a version that was valid since the service started
}

// live is a job with its state.
type live struct {
	*memory
	job      *job.Job
	due      time.Time // since when the job is due; zero: it is not
	trigger  event.Trigger
	run      *run      // nil: none
	waits    obstacle  // why a due job does not start, as it was reported
	invalid  string    // why its stanza is not valid any more; it runs as it was
	remote   bool      // the repository is on another machine
	settling time.Time // since when what a killed run owes is run; zero: it is not
	looking  chan bool // a look at that which has not ended
}

// definition returns the job with the options that hold now: for a run, those it began with.
func (j *live) definition() *job.Job {
	if j.run != nil {
		return j.run.job
	}
	return j.job
}

func newService(c *Config) *service {
	return &service{Config: c, begun: c.Clock.Now(), calls: make(chan func()), done: make(chan struct{})}
}

// later has the loop call do, unless it has ended.
func (s *service) later(do func()) {
	select {
	case s.calls <- do:
	case <-s.done:
	}
}

// load reads the state and the option file.
func (s *service) load() error {
	trim(s.StateDir)
	var problem error
	if s.state, problem = readState(s.StateDir); problem != nil {
		s.note("", problem.Error())
	}
	return s.firstLoad()
}

// note sends a remark to the sink.
func (s *service) note(job, text string) {
	s.send(&record.Event{Kind: record.Note, Job: job, Text: text})
}

func (s *service) send(e *record.Event) {
	e.At = s.Clock.Now()
	s.Sink(e)
}

// save writes the state. After a failure the service goes on, and reports it once.
func (s *service) save() {
	now := s.Clock.Now()
	for name, m := range s.state.Jobs {
		known := slices.ContainsFunc(s.jobs, func(j *live) bool { return j.memory == m })
		if !known && m.Running == nil && now.Sub(m.Began) > forgotten {
			delete(s.state.Jobs, name)
		}
	}
	err := s.state.write(s.StateDir)
	if err != nil && !s.unsaved {
		s.note("", fmt.Sprintf("%v; after a restart the service may repeat runs", err))
	}
	s.unsaved = err != nil
}

// recover ends runs that a service began which was killed.
func (s *service) recover() {
	now := s.Clock.Now()
	for _, j := range s.jobs {
		if j.Running != nil {
			cut := &run{rec: *j.Running, failure: "the service was killed while it ran", retry: true}
			j.conclude(cut, now)
			j.Running, j.LastRun, j.Unsent = nil, &cut.rec, true
		}
		if j.Unsent && j.LastRun != nil {
			s.report(j)
		}
		s.settle(j)
	}
	s.save()
}

// loop runs jobs until ctx ends; with Once, until nothing can start.
func (s *service) loop(ctx context.Context) error {
	defer close(s.done)
	signals, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, sleeps := s.Machine.Changes(signals), s.Machine.Sleeps(signals)
	s.notify("READY=1")
	defer s.notify("STOPPING=1")
	end := ctx.Done()
	for {
		s.round()
		if !s.busy() && (s.stopping || s.Once) {
			break
		}
		select {
		case do := <-s.calls:
			do()
		case _, ok := <-changes:
			if !ok {
				changes = nil
				continue
			}
			s.appeared()
		case asleep, ok := <-sleeps:
			if !ok {
				sleeps = nil
			}
			s.asleep = time.Time{}
			if ok && asleep {
				s.asleep = s.Clock.Now()
			}
		case <-s.Config.Reload:
			_ = s.reloadNow("") // it has reported the error
		case <-s.Clock.After(s.pause()):
		case <-end:
			end, s.stopping = nil, true
			s.notify("STOPPING=1")
		}
	}
	s.accelerate(time.Time{})
	s.leave()
	for _, one := range s.invalid {
		s.failed = append(s.failed, one.Name+" (it is invalid)")
	}
	switch {
	case len(s.failed) > 0 && s.Once:
		return fmt.Errorf("%w: %s", ErrFailed, strings.Join(s.failed, ", "))
	case len(s.incomplete) > 0 && s.Once:
		return fmt.Errorf("%w: %s", ErrIncomplete, strings.Join(s.incomplete, ", "))
	}
	return nil
}

// round does all that is to be done now.
func (s *service) round() {
	now := s.Clock.Now()
	s.power = nil
	if s.Watchdog > 0 {
		s.notify("WATCHDOG=1")
	}
	if !s.asleep.IsZero() && now.Sub(s.asleep) > 2*tick {
		s.asleep = time.Time{} // the signal of its end was lost
	}
	if s.stopping {
		s.stopAll()
		return
	}
	s.reloadChanged(now)
	s.endPauses(now)
	s.notice(now)
	s.suspendRuns(now)
	s.watchRuns(now)
	s.startDue(now)
	s.progress(now)
	s.alert(now)
	s.inhibit()
	s.reportState()
}

func (s *service) notify(state string) {
	if s.Notify != nil {
		s.Notify(state)
	}
}

// reportState shows in systemd what runs.
func (s *service) reportState() {
	var running []string
	for _, j := range s.steps() {
		running = append(running, j.job.Name+" ("+j.run.step.Name+")")
	}
	text := "STATUS=" + human.Plural(uint64(len(s.jobs)), "job") + ", none runs"
	if len(running) > 0 {
		text = "STATUS=running: " + strings.Join(running, ", ")
	}
	s.notify(text)
}

// all returns the jobs, and those that left the option file while they run.
func (s *service) all() []*live { return slices.Concat(s.jobs, s.left) }

// steps returns the jobs with a step that runs.
func (s *service) steps() []*live {
	return slices.DeleteFunc(s.all(), func(j *live) bool { return !j.runs() })
}

// runs reports whether a step of the job runs.
func (j *live) runs() bool { return j.run != nil && j.run.process != nil }

// busy reports whether a step or the command of a killed run runs.
func (s *service) busy() bool {
	return slices.ContainsFunc(s.all(), func(j *live) bool { return !j.settling.IsZero() || j.runs() })
}

// pause returns how long the loop may sleep.
func (s *service) pause() time.Duration {
	now := s.Clock.Now()
	d := tick
	if s.Watchdog > 0 {
		d = min(d, s.Watchdog/2)
	}
	for _, j := range s.jobs {
		if j.run == nil && j.due.IsZero() {
			if at, _ := s.dueTime(j); at.After(now) {
				d = min(d, at.Sub(now))
			}
		}
		if j.Paused && j.PausedUntil.After(now) {
			d = min(d, j.PausedUntil.Sub(now))
		}
	}
	return max(s.untilWatched(d), time.Millisecond)
}

// inhibit keeps the machine awake while a step runs.
func (s *service) inhibit() {
	switch busy := s.busy(); {
	case busy && s.awake == nil && s.asleep.IsZero():
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.awake = s.Machine.Inhibit(ctx, "a backup runs")
	case !busy && s.awake != nil:
		s.awake()
		s.awake = nil
	}
	if !s.asleep.IsZero() && !s.busy() {
		s.Machine.Ready()
	}
}

// leave ends what waits, so that a later start runs it again.
func (s *service) leave() {
	for _, j := range s.all() {
		if j.run != nil {
			j.run.end = ending
			s.finish(j)
		}
	}
	s.inhibit()
	s.save()
}

// alert reports jobs without a backup for too long.
func (s *service) alert(now time.Time) {
	for _, j := range s.jobs {
		if mates := s.mates(j); len(mates) > 0 && slices.Index(s.jobs, mates[0]) < slices.Index(s.jobs, j) {
			continue // the first of a group reports it
		}
		if !s.stale(j, now) || now.Sub(j.Alerted) < day {
			continue
		}
		newest, since := s.newest(j)
		last := cmp.Or(newest, since)
		j.Alerted = now
		s.save()
		text := "no complete backup since " + last.Format("2006-01-02 15:04")
		if newest.IsZero() {
			text = "no complete backup since the service knows the job, " + last.Format("2006-01-02 15:04")
		}
		if state := s.describe(j, now); state.WaitsFor != "" {
			text += "; it waits: " + state.WaitsFor
		}
		s.send(&record.Event{Kind: record.Silent, Job: j.job.Name, Text: text, Run: j.LastRun})
	}
}

// serve serves the control socket. Without a folder for it, the service runs without one.
func (s *service) serve(ctx context.Context) (stop func(), err error) {
	if s.RuntimeDir == "" {
		return func() {}, nil
	}
	ctx = context.WithoutCancel(ctx) // orders are answered until the last step has ended
	return control.ServeDaemon(ctx, s.RuntimeDir, s.serveOrder)
}

// describe returns the state of a job.
func (s *service) describe(j *live, now time.Time) event.DaemonJob {
	d := event.DaemonJob{Name: j.job.Name, Group: j.job.Group, Sources: j.job.Sources, Repository: j.job.Repository,
		Schedule: j.job.Schedule.String(), State: "idle", LastRun: brief(j.LastRun), Failures: j.Failures,
		Incomplete: j.Incomplete, Damage: j.Damage, Problem: j.invalid,
		Stale:      s.stale(j, now),
		LastBackup: j.LastBackup, LastProven: j.LastProven}
	if d.Sources == nil {
		d.Sources = []string{}
	}
	d.Next, _ = s.dueTime(j)
	switch {
	case j.runs():
		d.State, d.Step, d.PID = "running", j.run.step.Name, j.run.process.PID()
	case j.run != nil || !j.due.IsZero():
		d.State, d.WaitsFor = "waiting", j.waits.text
		if j.run == nil {
			d.Next = j.due
		}
	case !j.Retry.IsZero():
		d.State = "retrying"
	case j.Damage != "":
		d.State = "damaged"
	case j.Failures > 0:
		d.State = record.Failed
	case j.Incomplete > 0:
		d.State = record.Incomplete
	}
	if j.Paused {
		d.PausedUntil = j.PausedUntil
		d.Next = time.Time{}
		if d.State != "running" {
			d.State, d.WaitsFor = "paused", ""
		}
	}
	return d
}

// brief returns a run without the summaries of its steps: an answer with many of them would be too long.
func brief(r *event.Run) *event.Run {
	if r == nil {
		return nil
	}
	short := *r
	short.Steps = slices.Clone(r.Steps)
	for i := range short.Steps {
		short.Steps[i].Summary = nil
	}
	return &short
}
