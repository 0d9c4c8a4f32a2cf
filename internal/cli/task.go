package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
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
	frames  int            // bytes of opened frames that a repository keeps; 0: as usual
	job     control.Status // what does not change while it is shown

	mu      sync.Mutex
	manager *throttle.Manager // nil: nothing was opened yet
	process *priority.Process // nil: its priority is left alone
	ledger  *report.Ledger    // nil: no job yet
	changed bool              // the user changed the policy while the job runs, without a time
	policy  iopolicy.Policy   // of the job
	term    control.Term      // of the policy, if it was set for a time
	note    func(text string) // reports the end of the term
	brief   bool              // a person waits for the next few operations: they never sleep
	meter   report.Meter      // of Status
	metered time.Duration     // when Status used it last, since the start of the job
}

// meterAge is the longest time between two uses of the meter after which it goes on. Its speeds are those of the last
// seconds only if it is used more often than that.
const meterAge = 10 * time.Second

// usedCache is the cache folder of a repository, and where the repository is.
type usedCache struct{ folder, location string }

func newTask(io options.IO) *task {
	p := io.Choose(options.Attended)
	return &task{client: iopolicy.NewClient(p), policy: p, note: func(string) {}}
}

// applyPolicy applies the policy of a use to I/O and CPU from now on. A policy that the user chose while the job runs
// stays; while one holds for a time, that of the use follows it.
func (a *app) applyPolicy(use options.Use) {
	t := a.task
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed {
		return
	}
	if t.process == nil {
		process, err := priority.This(a.spec.IO().ByKernel)
		if err != nil {
			a.print.Note("the CPU priority is unchanged: " + err.Error())
		}
		t.process = process
		if err := priority.FetchNothing(); err != nil {
			a.print.Note(err.Error())
		}
	}
	for _, note := range t.holdLasting(a.spec.IO().Choose(use)) {
		a.print.Note(note)
	}
}

// holdLasting applies a policy, or makes it the one that follows the term that runs. t.mu is held.
func (t *task) holdLasting(p iopolicy.Policy) (notes []string) {
	if t.term.Runs() {
		t.term.Follow(p)
		p = t.policy
	}
	return t.hold(p)
}

// hold applies a policy. The I/O follows it even if the CPU priority cannot be changed. t.mu is held.
func (t *task) hold(p iopolicy.Policy) (notes []string) {
	t.policy = p
	t.apply()
	if t.ledger != nil {
		t.ledger.Policy(p.String())
	}
	if t.process == nil {
		return nil
	}
	applied, err := t.process.Apply(p)
	if err != nil {
		return append(applied.Notes, "the CPU priority is unchanged: "+err.Error())
	}
	return applied.Notes
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

// start calls start so that a child process has all processors of this process.
func (t *task) start(start func() error) error {
	t.mu.Lock()
	manager := t.manager
	t.mu.Unlock()
	if manager == nil {
		return start()
	}
	return manager.Start(start)
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
	t.term.End()
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
	status.Policy, status.PolicyUntil = t.policy.String(), t.term.Until()
	t.mu.Unlock()
	if ledger != nil {
		totals := ledger.Snapshot()
		status.Start = totals.Start
		status.Status = event.NewStatus(&totals, t.speeds(&totals), ledger.CurrentPaths())
	}
	return status
}

// speeds returns the speeds of the last seconds if it was called a few seconds ago, otherwise those since the start.
func (t *task) speeds(totals *report.Totals) report.Speeds {
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := totals.Elapsed - t.metered; age < 0 || age > meterAge {
		t.meter = report.Meter{}
	}
	t.metered = totals.Elapsed
	return t.meter.Observe(totals)
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
func (t *task) SetPolicy(p iopolicy.Policy, d time.Duration) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.term.Change(t.policy, d, t.expired)
	if d <= 0 {
		t.changed = true
	}
	return t.hold(p), nil
}

// ReturnPolicy implements control.Job.
func (t *task) ReturnPolicy() ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.term.Runs() {
		return nil, nil
	}
	t.term.End()
	return t.hold(t.term.Lasting()), nil
}

// expired returns to the lasting policy when the term is over.
func (t *task) expired() {
	t.mu.Lock()
	was, report := t.policy, t.note
	var notes []string
	if t.term.Expired() {
		notes = t.hold(t.term.Lasting())
		text := "the policy is " + t.policy.String() + " again, it was " + was.String() + " for a time"
		notes = append([]string{text}, notes...)
	}
	t.mu.Unlock()
	for _, note := range notes {
		report(note)
	}
}

// endTerm ends the term of the policy with the job.
func (t *task) endTerm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.term.End()
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
	t.job.Command, t.note = shownCommand(os.Args), a.print.Note
	t.mu.Unlock()
	l.Policy(t.chosen().String())
	if manager := a.gates(); manager != nil {
		l.Gates(report.SinceNow(func() []report.Gate { return manager.Report(t.chosen()) }))
	}
	ctx, cancel := context.WithCancel(ctx)
	control.OnSignal(ctx, t, a.print.Note)
	stop, served := a.serve(ctx, t, func() { cancel(); t.endTerm() })
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

// shownCommand returns a command line without passwords and what yields them: such as the value of --password-command,
// and a password in an address.
func shownCommand(args []string) []string {
	const hidden = "***"
	var shown []string
	follows := false // the value of a secret flag
	for _, arg := range args {
		name, _, assigned := strings.Cut(arg, "=")
		secret := secretFlag(name)
		switch {
		case follows:
			arg = hidden
		case secret && assigned:
			arg = name + "=" + hidden
		default:
			arg = address.Mask(arg)
		}
		follows = !follows && secret && !assigned
		shown = append(shown, arg)
	}
	return shown
}

// secretFlag reports whether the value of a flag, of this program or one that it starts, may contain a password.
func secretFlag(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "-") && strings.Contains(name, "password") && !strings.HasSuffix(name, "file")
}

// runtimeDir returns the folder of the sockets.
func (a *app) runtimeDir() (string, error) { return shared.RuntimeDir(a.Env) }
