package cli

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// task is this run as other processes see and change it: its job and its policy. All its I/O uses client.
type task struct {
	client  *iopolicy.Client
	sources []string       // of a backup
	uploads int            // of a backup; 0: not known yet
	opened  []usedCache    // recorded at the end of the run
	limiter *limit.Limiter // of all repositories of the run; nil: no limits
	job     control.Status // what does not change while it is shown

	mu      sync.Mutex
	manager *throttle.Manager // nil: nothing was opened yet
	process *priority.Process // nil: its priority is left alone
	ledger  *report.Ledger    // nil: no job yet
	changed bool              // the user changed the policy while the job runs
	policy  iopolicy.Policy   // of the job
	brief   bool              // a person waits for the next few operations: they never sleep
}

// usedCache is the cache folder of a repository, and where the repository is.
type usedCache struct{ folder, location string }

func newTask(io options.IO) *task {
	p := io.Choose(options.Attended)
	return &task{client: iopolicy.NewClient(p), policy: p}
}

// applyPolicy applies the policy of a use to I/O and CPU from now on. A policy that the user chose while the job runs
// stays.
func (a *app) applyPolicy(use options.Use) {
	t := a.task
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed {
		return
	}
	if t.process == nil {
		process, err := priority.This()
		if err != nil {
			a.print.Note("the CPU priority is unchanged: " + err.Error())
		}
		t.process = process
	}
	notes, err := t.hold(a.spec.IO().Choose(use))
	if err != nil {
		notes = append(notes, "the CPU priority is unchanged: "+err.Error())
	}
	for _, note := range notes {
		a.print.Note(note)
	}
}

// hold applies a policy. The I/O follows it even if the CPU priority cannot be changed.
func (t *task) hold(p iopolicy.Policy) (notes []string, err error) {
	t.policy = p
	t.apply()
	if t.ledger != nil {
		t.ledger.Policy(p.String())
	}
	if t.process == nil {
		return nil, nil
	}
	applied, err := t.process.Apply(p)
	return applied.Notes, err
}

// apply sets the I/O policy: that of the job, or Passive in a brief part. Passive never sleeps, and opens no window in
// which the job itself would have to sleep. t.mu is held.
func (t *task) apply() {
	p := t.policy
	if t.brief {
		p = iopolicy.Passive
	}
	if t.manager != nil {
		t.manager.SetPolicy(p)
	} else {
		t.client.SetPolicy(p)
	}
}

// setBrief starts or ends a brief part: a few operations for which a person waits. The policy of the job and its CPU
// priority do not change.
func (t *task) setBrief(brief bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brief = brief
	t.apply()
}

// yieldToAll applies the I/O policy throttle for work at the end of the job, for which no person waits. The CPU
// priority does not change.
func (t *task) yieldToAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brief, t.policy = false, iopolicy.Throttle
	t.apply()
}

// chosen returns the policy of the job.
func (t *task) chosen() iopolicy.Policy {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.policy
}

// Status is the state of the job for its socket.
func (t *task) Status() control.Status {
	t.mu.Lock()
	status, ledger := t.job, t.ledger
	t.mu.Unlock()
	status.Policy = t.chosen().String()
	if ledger != nil {
		totals := ledger.Snapshot()
		var since report.Meter // one observation: speeds since the start
		status.Start = totals.Start
		status.Status = event.NewStatus(&totals, since.Observe(&totals), ledger.CurrentPaths())
	}
	return status
}

// SetMaxImpact implements control.Job.
func (t *task) SetMaxImpact(part float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.manager != nil {
		t.manager.SetMaxImpact(part)
	}
}

// SetPolicy implements control.Job.
func (t *task) SetPolicy(p iopolicy.Policy) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = true
	notes, err := t.hold(p)
	if err != nil {
		notes = append(notes, "the CPU priority is unchanged: "+err.Error())
	}
	return notes, nil
}

// publish makes the job visible and changeable by a socket and SIGUSR2, until stop is called. Failure is only a note.
func (a *app) publish(ctx context.Context, job string, sources []string, l *report.Ledger) (stop func()) {
	t := a.task
	repository := "" // opening it says what is wrong
	if at, err := a.location(); err == nil {
		repository = at.String()
	}
	t.mu.Lock()
	t.job.Job, t.job.Sources, t.job.Repository, t.ledger = job, sources, repository, l
	t.mu.Unlock()
	l.Policy(t.chosen().String())
	if manager := a.gates(); manager != nil {
		l.Gates(report.SinceNow(func() []report.Gate { return manager.Report(t.chosen()) }))
	}
	ctx, cancel := context.WithCancel(ctx)
	control.OnSignal(ctx, t, a.print.Note)
	stop, served := a.serve(ctx, t, cancel)
	if served {
		l.Reachable(os.Getpid())
	}
	return stop
}

// serve serves the socket of a job until stop is called; stop also calls then.
func (a *app) serve(ctx context.Context, job control.Job, then func()) (stop func(), served bool) {
	dir, err := a.runtimeDir()
	if err == nil {
		var end func()
		if end, err = control.Serve(ctx, dir, job); err == nil {
			return func() { end(); then() }, true
		}
	}
	// Cron and containers often have no runtime directory: nothing is wrong with that.
	if !errors.Is(err, shared.ErrNoRuntimeDir) || a.spec.Output().Verbose > 0 {
		a.print.Note("'tidemark tier' cannot see this job: " + err.Error())
	}
	return then, false
}

// runtimeDir returns the folder of the sockets.
func (a *app) runtimeDir() (string, error) { return shared.RuntimeDir(a.Env) }
