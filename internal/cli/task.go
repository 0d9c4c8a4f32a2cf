package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/gatehouse"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/priority"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// task is this run as others see and change it: which policy it follows, and for what. Its client passes all gates.
type task struct {
	client  *iopolicy.Client
	sources []string       // of a backup
	uploads int            // of a backup, at once; 0: not settled
	job     control.Status // what does not change while it is shown

	mu      sync.Mutex
	house   *gatehouse.House  // nil: nothing was opened yet
	process *priority.Process // nil: its priority is left alone
	ledger  *report.Ledger    // nil: nobody keeps books
	told    bool              // somebody has chosen the policy while the job runs
}

func newTask(io options.IO) *task {
	return &task{client: iopolicy.NewClient(io.Choose(options.Attended))}
}

// yield lets the policy that the options name for a use hold from now on, for the I/O and for the processor. What somebody
// has chosen while the job runs stays.
func (a *app) yield(use options.Use) {
	t := a.task
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told {
		return
	}
	if t.process == nil {
		process, err := priority.This()
		if err != nil {
			a.print.Note("the priority for the processor is left alone: " + err.Error())
		}
		t.process = process
	}
	notes, err := t.hold(a.spec.IO().Choose(use))
	if err != nil {
		notes = append(notes, "the priority for the processor is left alone: "+err.Error())
	}
	for _, note := range notes {
		a.print.Note(note)
	}
}

// hold makes a policy hold. The I/O follows it in any case.
func (t *task) hold(p iopolicy.Policy) (notes []string, err error) {
	if t.house != nil {
		t.house.SetPolicy(p)
	} else {
		t.client.SetPolicy(p)
	}
	if t.ledger != nil {
		t.ledger.Policy(p.String())
	}
	if t.process == nil {
		return nil, nil
	}
	applied, err := t.process.Apply(p)
	return applied.Notes, err
}

// Status is the state of the job for its socket.
func (t *task) Status() control.Status {
	t.mu.Lock()
	status, ledger := t.job, t.ledger
	t.mu.Unlock()
	status.Policy = t.client.Policy().String()
	if ledger != nil {
		totals := ledger.Snapshot()
		var since report.Meter // of one look: the speeds are those since the beginning
		status.Start = totals.Start
		status.Status = event.NewStatus(&totals, since.Observe(&totals), ledger.CurrentPaths())
	}
	return status
}

// SetPolicy makes another policy hold while the job runs.
func (t *task) SetPolicy(p iopolicy.Policy) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = true
	notes, err := t.hold(p)
	if err != nil {
		notes = append(notes, "the priority for the processor stays as it was: "+err.Error())
	}
	return notes, nil
}

// expose lets others see and change the job until stop is called: by a socket, and by SIGUSR2. A job that cannot be seen
// is done all the same.
func (a *app) expose(ctx context.Context, job string, sources []string, l *report.Ledger) (stop func()) {
	t := a.task
	repository := "" // opening it says what is wrong
	if at, err := a.place(); err == nil {
		repository = at.String()
	}
	t.mu.Lock()
	t.job.Job, t.job.Sources, t.job.Repository, t.ledger = job, sources, repository, l
	t.mu.Unlock()
	l.Policy(t.client.Policy().String())
	if house := a.gates(); house != nil {
		l.Gates(house.Report)
	}
	ctx, cancel := context.WithCancel(ctx)
	control.OnSignal(ctx, t, a.print.Note)
	return a.serve(ctx, t, cancel)
}

// serve serves the socket of a job until stop is called, which calls then as well.
func (a *app) serve(ctx context.Context, job control.Job, then func()) (stop func()) {
	dir, err := a.runtimeDir()
	if err == nil {
		var end func()
		if end, err = control.Serve(ctx, dir, job); err == nil {
			return func() { end(); then() }
		}
	}
	// Cron and containers often have no runtime directory: nothing is wrong with that.
	if !errors.Is(err, shared.ErrNoRuntimeDir) || a.spec.Output().Verbose > 0 {
		a.print.Note("'tidemark tier' cannot see this job: " + err.Error())
	}
	return then
}

// runtimeDir is where running jobs are found.
func (a *app) runtimeDir() (string, error) { return shared.RuntimeDir(a.Env) }
