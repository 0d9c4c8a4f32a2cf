package daemon

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// endReason is why the step of a run was asked to end.
type endReason uint8

const (
	running   endReason = iota // it was not
	suspended                  // it goes on later
	stopped                    // by hand
	ending                     // the service ends
)

// The exit codes of docs/exit-codes.md that matter here.
const (
	exitFailed     = 1
	exitIncomplete = 3
	exitNoRepo     = 10
	exitCannotRun  = 126
	exitSignal     = 128 // or more: a signal ended it, or it was interrupted
)

// progressEvery is the time between two reports of progress.
const progressEvery = 5 * time.Minute

// run is a run that has begun.
type run struct {
	rec       event.Run
	job       *job.Job // with the options it began with
	at        int      // index of the step in stepNames
	step      Step
	stepStart time.Time
	process   Process // nil between two steps, and while the run waits
	status    atomic.Pointer[event.Status]
	reported  time.Time // when progress was reported last
	outage    bool      // the target does not answer, and that was reported
	watch     watch
	end       endReason
	backup    int       // exit code of the backup; -1: none has ended
	failure   string    // why the run failed; "": it did not
	proven    time.Time // LastProven when the run began
	sources   []event.Source
	lacks     string // what the snapshot lacks
	waits     string // why retention waits, as the backup says; "": it does not
	gone      bool   // the target could not be reached
	full      bool   // the backup failed for lack of space, which a forget and a prune may make
	retry     bool
}

// stepNames are the steps of a run in their order. The first makes or copies snapshots.
func (r *run) stepNames() []string {
	first := "backup"
	if r.job.Copies {
		first = copyStep
	}
	return []string{first, "forget", pruneStep, "check", "drill"}
}

// copyStep is the first step of a job that backs nothing up.
const copyStep = "copy"

// pruneStep is a step that fails beside another of its kind in the same repository.
const pruneStep = "prune"

// saved reports whether the backup made a snapshot, whatever failed afterwards.
func (r *run) saved() bool {
	return r.backup == 0 || r.backup == exitIncomplete || r.rec.Snapshot != ""
}

// complete reports whether the backup made a snapshot that lacks nothing, whatever failed afterwards.
func (r *run) complete() bool { return r.saved() && r.backup != exitIncomplete && r.away() == "" }

// copy returns the record for others to keep.
func (r *run) copy() *event.Run {
	c := r.rec
	c.Steps = slices.Clone(r.rec.Steps)
	return &c
}

// begin begins the run of a job that is due.
func (s *service) begin(j *live, now time.Time) {
	if j.waits.disk {
		j.trigger = event.Appeared
	}
	id := now.UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:8])
	r := &run{job: j.job, backup: -1, reported: now, proven: j.LastProven,
		rec: event.Run{Type: "run", Version: 1, ID: id, Job: j.job.Name, Trigger: j.trigger, Start: now,
			Steps: []event.RunStep{}}}
	j.run, j.Running, j.Retry, j.waits = r, &r.rec, time.Time{}, obstacle{}
	j.count(j.due) // after a small step back of the clock, it is in the future
	j.count(now)
	s.save()
	s.send(&record.Event{Kind: record.Started, Job: j.job.Name, Trigger: j.trigger, Run: r.copy()})
	s.advance(j)
}

// count has the schedule count from t, unless it counts from a later time.
func (m *memory) count(t time.Time) {
	if t.After(m.Began) {
		m.Began = t
	}
}

// resume continues a run that waited.
func (s *service) resume(j *live) {
	j.run.end, j.waits = running, obstacle{}
	if j.run.backup < 0 {
		j.count(s.Clock.Now()) // the backup begins only now
	}
	s.send(&record.Event{Kind: record.Resumed, Job: j.job.Name})
	s.advance(j)
}

// advance starts the next step of a run, or ends the run, or lets it wait.
func (s *service) advance(j *live) {
	r := j.run
	now := s.Clock.Now()
	s.look(j)
	step, ok := s.nextStep(j, now)
	switch {
	case r.end == stopped || r.end == ending || !ok:
		r.failure = cmp.Or(r.failure, j.standing())
		s.finish(j)
		return
	case r.end == suspended:
		return
	}
	if why := cmp.Or(s.blocked(j, now), obstacle{text: s.crowded(j, now)}); why.text != "" {
		r.end = suspended
		s.wait(j, why)
		return
	}
	r.step, r.stepStart, r.reported = step, now, now
	r.status.Store(nil)
	p, err := s.Start(step, r.status.Store)
	if err != nil {
		s.stepEnded(j, Result{ExitCode: exitCannotRun, Message: err.Error()})
		return
	}
	r.process = p
	s.hasten(p)
	go func() {
		result := p.Wait()
		s.later(func() { s.stepEnded(j, result) })
	}()
}

// nextStep returns the first step from r.at on that is to be done.
func (s *service) nextStep(j *live, now time.Time) (Step, bool) {
	r := j.run
	for names := r.stepNames(); r.at < len(names) && !r.watch.over; r.at++ {
		if name := names[r.at]; r.wants(j.memory, name, now) {
			return s.step(j, name), true
		}
	}
	return Step{}, false
}

// wants reports whether a step is to be done.
func (r *run) wants(m *memory, name string, now time.Time) bool {
	o := r.job.Spec.Job()
	since := func(last time.Time, every time.Duration) bool {
		return r.saved() && every > 0 && now.Sub(last) >= every/10*9 // steps before it take more or less time
	}
	switch name {
	case "forget":
		return (r.saved() || r.full) && !strings.EqualFold(o.Keep, "all") && r.keeps() == ""
	case "prune":
		return m.Unused && r.keeps() == "" && (since(m.Pruned, o.PruneEvery) || r.full && o.PruneEvery > 0)
	case "check":
		return since(m.Checked, o.CheckEvery) || r.saved() && m.Damage != ""
	case "drill":
		return since(m.Drilled, o.DrillEvery)
	}
	return r.backup < 0 && r.failure == ""
}

// stepEnded records how the step of a run ended, and goes on with the run.
func (s *service) stepEnded(j *live, result Result) {
	r, now := j.run, s.Clock.Now()
	r.process = nil
	if len(result.Summary) > 0 && !json.Valid(result.Summary) {
		result.Summary = nil
	}
	r.rec.Steps = append(r.rec.Steps, event.RunStep{Step: r.step.Name, Start: r.stepStart, End: now,
		ExitCode: result.ExitCode, Message: result.Message, Failed: result.Failures.Count, Summary: result.Summary})
	if cut := r.end != running && result.ExitCode >= exitSignal; !cut {
		s.judge(j, result)
		r.at++
	}
	if r.step.Name == "backup" && result.ExitCode >= exitSignal {
		s.settle(j)
	}
	s.save()
	s.reportHooks(r, result.Hooks)
	if text := strings.Join(r.rec.Warnings, "\n"); text != "" && r.rec.Steps[len(r.rec.Steps)-1].Step == "backup" {
		e := &record.Event{Kind: record.Warned, Job: j.job.Name, Text: text, Run: r.copy()}
		if j.LastRun == nil || !slices.Equal(j.LastRun.Warnings, r.rec.Warnings) {
			e.Alert = record.Warned.String()
		}
		s.send(e)
	}
	s.send(&record.Event{Kind: record.StepEnded, Job: j.job.Name, Step: r.step.Name, Run: r.copy()})
	s.advance(j)
}

// judge draws the conclusions from a step that was not interrupted.
func (s *service) judge(j *live, result Result) {
	r, now, began := j.run, s.Clock.Now(), j.run.stepStart
	code := result.ExitCode
	message := cmp.Or(result.Message, unexplained(code, r.rec.ID))
	var summary struct {
		event.BackupSummary
		Pending bool `json:"pending"` // of a prune
	}
	if len(result.Summary) > 0 {
		_ = json.Unmarshal(result.Summary, &summary) // what cannot be read stays zero
	}
	failed := code != 0
	switch r.step.Name {
	case "backup", copyStep:
		if j.learnRepository(summary.Repository) {
			r.proven = time.Time{}
		}
		r.backup, r.rec.Snapshot, r.sources = code, summary.SnapshotID, summary.Sources
		r.waits, r.rec.Warnings = summary.RetentionWaits, summary.Warnings
		failed = code != 0 && code != exitIncomplete
		if r.complete() {
			j.LastBackup, j.Alerted = now, time.Time{}
		}
		r.full = result.Full
		r.lacks = r.describeLack(message, &result.Failures)
		r.gone = code == exitNoRepo || code == exitFailed && j.remote && !r.full && !r.saved()
		// Without a reason that lasts, it may succeed soon.
		r.retry = !r.saved() && (r.gone || code >= exitSignal || code == exitFailed && r.rec.Trigger != event.Retried)
	case "forget":
		j.Unused = j.Unused || result.Removed > 0
	case "prune":
		j.Pruned = began
		j.Unused = failed || summary.Pending
	case "check", "drill":
		switch reached := code != exitNoRepo && code < exitSignal; {
		case !reached: // it is due in the next run
			break
		case r.step.Name == "drill":
			j.Drilled = began
			s.learn(j, r, result, message)
		case readsData(r.step.Args):
			j.Checked = began
			fallthrough
		default:
			s.learn(j, r, result, message)
		}
		if r.failure == "" {
			j.LastProven = now
		}
	}
	if failed { // nothing is proven in a run with a fault
		j.LastProven = r.proven
	}
	if failed && r.failure == "" {
		r.failure = strings.Join(append([]string{r.step.Name + ": " + message}, result.Failures.words(r.rec.ID)...), "\n")
	}
}

// unexplained describes the end of a step that said nothing of it.
func unexplained(code int, run string) string {
	const sigkill = 9
	switch signal := code - exitSignal; {
	case signal == sigkill:
		return "it was killed (signal 9), perhaps for lack of memory: 'dmesg' shows that; 'tidemark log --run " + run +
			"' shows how far it was"
	case signal > 0:
		return fmt.Sprintf("it was ended by signal %d; 'tidemark log --run %s' shows how far it was", signal, run)
	}
	return fmt.Sprintf("it ended with code %d", code)
}

// finish ends a run.
func (s *service) finish(j *live) {
	r := j.run
	j.conclude(r, s.Clock.Now())
	switch {
	case r.rec.Outcome == record.Failed:
		s.failed = append(s.failed, j.job.Name)
	case r.rec.Outcome == record.Incomplete:
		s.incomplete = append(s.incomplete, j.job.Name)
	}
	j.Away = r.gone && !j.Retry.IsZero()
	s.passCopies(j, r)
	j.run, j.Running, j.LastRun = nil, nil, r.copy()
	j.due, j.trigger, j.waits = time.Time{}, "", obstacle{}
	j.align(s.Clock.Now()) // the option file may have changed while it ran
	s.passOn(j, r.rec.Trigger)
	s.left = slices.DeleteFunc(s.left, func(other *live) bool { return other == j })
	s.report(j)
}

// report saves the end of a run and sends it. After a kill between the two, the next service sends it.
func (s *service) report(j *live) {
	r := j.LastRun
	j.Unsent = true
	s.save()
	s.send(&record.Event{Kind: record.Finished, Job: r.Job, Trigger: r.Trigger, Run: r, Alert: j.Alert})
	j.Unsent = false
	s.save()
	record.TrimFailed(s.StateDir)
}

// stopAll asks all steps to end, since the service ends.
func (s *service) stopAll() {
	for _, j := range s.steps() {
		j.run.process.Stop()
		if j.run.end != stopped {
			j.run.end = ending
		}
	}
}

// progress reports how far the steps are.
func (s *service) progress(now time.Time) {
	for _, j := range s.steps() {
		status := j.run.status.Load()
		s.noteOutage(j.run, status)
		if status != nil && now.Sub(j.run.reported) >= progressEvery {
			j.run.reported = now
			s.send(&record.Event{Kind: record.Progress, Job: j.job.Name, Step: j.run.step.Name, Status: status})
		}
	}
}

// noteOutage reports that the target of a run does not answer, and that it does again.
func (s *service) noteOutage(r *run, status *event.Status) {
	if status == nil || (status.TargetError != "") == r.outage {
		return
	}
	r.outage = !r.outage
	text := "The target answers again"
	if r.outage {
		text = "The target does not answer, and is tried again: " + status.TargetError
	}
	s.note(r.job.Name, text)
}

// recordedLines is how many lines of the output of a command are recorded.
const recordedLines = 100

// settle runs what a killed run of a job owes. The job does not run meanwhile.
func (s *service) settle(j *live) {
	if s.Settle == nil || !j.settling.IsZero() {
		return
	}
	j.settling = s.Clock.Now()
	go func(one *job.Job) {
		ran, err := s.Settle(one)
		s.later(func() { s.settleEnded(j, ran, err) })
	}(j.definition())
}

// settleEnded reports what was run.
func (s *service) settleEnded(j *live, ran bool, err error) {
	j.settling = time.Time{}
	switch {
	case err != nil:
		s.note(j.job.Name, "AFTERCOMMAND of a run that was killed: "+err.Error())
	case ran:
		s.note(j.job.Name, "the AFTERCOMMAND of a run that was killed has run")
	}
}

// reportHooks records what the commands around a backup printed.
func (s *service) reportHooks(r *run, hooks []event.Hook) {
	for i := range hooks {
		if h := &hooks[i]; h.Output != "" {
			s.send(&record.Event{Kind: record.Note, Job: r.job.Name, Run: r.copy(),
				Text: h.Step + " printed: " + strings.Join(lastLines(h.Output, recordedLines), "\n")})
		}
	}
}
