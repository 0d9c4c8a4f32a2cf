package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// machinePower returns power and network, asked once a round.
func (s *service) machinePower() machinestate.Power {
	if s.power == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p := s.Machine.Power(ctx)
		s.power = &p
	}
	return *s.power
}

// obstacle is why a job cannot run; the zero value: it can.
type obstacle struct {
	text string
	disk bool // the disk of its repository is not mounted
}

// blocked returns why a job cannot run now. A run that a person started ignores what saves power, money and quiet.
func (s *service) blocked(j *live, now time.Time) obstacle {
	o := j.job.Spec.Job()
	switch {
	case j.Paused:
		return obstacle{text: "paused by hand"}
	case !s.asleep.IsZero():
		return obstacle{text: "the machine is about to sleep"}
	}
	if disk := s.missingDisk(j); disk != "" {
		return obstacle{fmt.Sprintf("the disk %s is not mounted", disk), true}
	}
	if j.byHand() {
		return obstacle{}
	}
	quiet, _ := job.ParseQuiet(o.QuietHours) // Load has checked it, and the state of power
	if until := quiet.Until(now); !until.IsZero() {
		return obstacle{text: "quiet hours until " + until.Format("Mon 15:04")}
	}
	if why := onBattery(o.OnBattery, s.machinePower()); why != "" {
		return obstacle{text: why}
	}
	if o.OnMetered == "pause" && j.remote && s.machinePower().Metered {
		return obstacle{text: "the network is metered"}
	}
	return obstacle{}
}

// byHand reports whether a person started the run.
func (j *live) byHand() bool {
	if j.run != nil {
		return j.run.rec.Trigger == event.ByHand
	}
	return j.trigger == event.ByHand
}

// onBattery returns why a job with this option cannot run.
func onBattery(option string, p machinestate.Power) string {
	least, _ := job.ParseBattery(option)
	switch {
	case !p.OnBattery || p.Charge >= least || least == 0:
		return ""
	case least > 100:
		return "the machine runs on battery"
	}
	return fmt.Sprintf("the battery is below %d%%", least)
}

// wait reports why a due job does not start, once for each reason.
func (s *service) wait(j *live, why obstacle) {
	if j.waits == why {
		return
	}
	j.waits = why
	s.send(&record.Event{Kind: record.Waiting, Job: j.job.Name, Text: why.text})
}

// mostRuns bounds the runs that began within shortRun, since each step needs memory. One that takes long, or hangs,
// does not hold others up.
const (
	mostRuns = 4
	shortRun = 10 * time.Minute
	// unnoticed is how long a job waits for a look at what an earlier run owes, before that is reported.
	unnoticed = time.Second
)

// startDue starts the jobs that are due and can run, in the order in which they became due.
func (s *service) startDue(now time.Time) {
	s.takeTurns(now)
	queue := slices.DeleteFunc(s.all(), func(j *live) bool {
		return j.runs() || j.run == nil && j.due.IsZero()
	})
	slices.SortStableFunc(queue, func(a, b *live) int { return a.due.Compare(b.due) })
	for _, j := range queue {
		s.examine(j)
		if why := s.blocked(j, now); why.text != "" {
			s.wait(j, why)
			s.skip(j, now)
			continue
		}
		if !j.settling.IsZero() && now.Sub(j.settling) < unnoticed {
			continue // most often nothing is owed
		}
		if why := s.crowded(j, now); why != "" {
			s.wait(j, obstacle{text: why})
			continue
		}
		if j.run == nil {
			s.begin(j, now)
		} else {
			s.resume(j)
		}
	}
}

// crowded returns why a job has to wait for others that run; "" if it does not. Disks and networks are shared by the
// gates of the runs.
func (s *service) crowded(j *live, now time.Time) string {
	if !j.settling.IsZero() {
		return "the AFTERCOMMAND of its run that was killed"
	}
	var running []string
	own, prunes := j.definition(), false
	if j.run != nil {
		step, _ := s.nextStep(j, now)
		prunes = step.Name == pruneStep
	}
	for _, other := range s.steps() {
		if other == j {
			continue
		}
		if now.Sub(other.run.rec.Start) < shortRun {
			running = append(running, other.job.Name)
		}
		switch {
		case own.Group != "" && other.run.job.Group == own.Group:
			return fmt.Sprintf("job %s runs", other.job.Name)
		case own.Copies && other.run.job.Name == own.Group:
			return fmt.Sprintf("job %s, whose snapshots it copies, runs", other.job.Name)
		case other.run.job.Repository != own.Repository:
		case slices.Equal(other.run.job.Sources, own.Sources):
			return fmt.Sprintf("job %s backs up the same sources to the same repository", other.job.Name)
		case prunes && other.run.step.Name == pruneStep:
			return fmt.Sprintf("job %s prunes the same repository", other.job.Name)
		}
	}
	if len(running) >= mostRuns {
		return fmt.Sprintf("%d jobs began a short time ago: %s", len(running), strings.Join(running, ", "))
	}
	return ""
}

// skip leaves a time of the schedule out if the disk is away and its return is no reason to run.
func (s *service) skip(j *live, now time.Time) {
	o := j.job.Spec.Job()
	if j.run != nil || j.Paused || o.OnAppear || j.trigger == event.ByHand || s.missingDisk(j) == "" {
		return
	}
	s.drop(j, now)
	s.save()
}

// missingDisk returns the disk that the repository's location names, if it is not mounted; "": it is, or none is named.
func (s *service) missingDisk(j *live) string {
	at, err := location.Parse(j.job.Repository)
	if err != nil || at.Disk == (location.Disk{}) {
		return ""
	}
	if _, ok := s.Machine.Mounted(at.Disk.By, at.Disk.Name); ok {
		return ""
	}
	return at.Disk.String()
}

// drop gives up a run that has not begun; the schedule counts from now.
func (s *service) drop(j *live, now time.Time) {
	j.Began, j.Retry, j.Away, j.due, j.waits = now, time.Time{}, false, time.Time{}, obstacle{}
}

// suspendRuns stops the steps of runs that must not go on now; their work so far is kept.
func (s *service) suspendRuns(now time.Time) {
	for _, j := range s.steps() {
		if j.run.end != running {
			continue
		}
		if why := s.blocked(j, now); why.text != "" {
			j.run.end = suspended
			s.wait(j, why)
			j.run.process.Stop()
		}
	}
}

// appeared lets the jobs whose target was away try again: a disk or the network has changed.
func (s *service) appeared() {
	now := s.Clock.Now()
	for _, j := range s.jobs {
		if j.run != nil || j.Retry.IsZero() || !j.Away || !j.job.Spec.Job().OnAppear || j.LastRun == nil {
			continue
		}
		// The first change of several comes before the disk can be used.
		if soon := j.LastRun.End.Add(time.Minute); j.Retry.After(soon) {
			j.Retry = soon
		}
		if j.due.IsZero() && !j.Retry.After(now) {
			j.due, j.trigger = now, event.Appeared
		}
	}
}

// Remote reports whether the repository of a job is on another machine.
func Remote(j *job.Job) bool {
	at, err := location.Parse(j.Repository)
	if err != nil || at.OnServer() {
		return err == nil
	}
	if !filepath.IsAbs(at.Folder) {
		return false // it is below a disk
	}
	info, err := device.NewFinder().Of(at.Folder)
	return err == nil && info.Medium == device.Remote
}

// patience bounds what the loop waits for: a share that does not answer blocks each access to it.
const patience = 3 * time.Second

// examine finds out whether a job needs the network. A look at a mounted share that hangs is given up, and not repeated
// while it hangs.
func (s *service) examine(j *live) {
	j.remote = false
	if j.looking == nil {
		j.looking = make(chan bool, 1)
		go func(to chan<- bool, of *job.Job) { to <- s.Remote(of) }(j.looking, j.job)
	}
	select {
	case j.remote = <-j.looking:
		j.looking = nil
	case <-time.After(patience):
	}
}
