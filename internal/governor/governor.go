// Package governor has this process follow the I/O policy of its job.
//
//	options ────────► Use ┐                            ┌► gates of all devices (throttle)
//	                      ├► control.Job ──► Governor ─┼► CPU priority (throttle/priority)
//	socket, SIGUSR2 ──────┘  policy, term              └► report of the job (report.Ledger)
//
// The gates are made when the first of them is needed. Parts of a job differ from its policy, while the CPU priority
// stays: in a brief part, for which a person waits, the I/O never sleeps; the work at the end, for which no person
// waits, yields to all.
package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Config says what a Governor governs.
type Config struct {
	Policy   iopolicy.Policy // until the first Use, and what the first gate uses without one
	ByKernel bool            // the kernel carries out the policy: see priority.This
	Note     func(text string)
	// Open makes the gates when the first of them is needed.
	Open func(*iopolicy.Client) *throttle.Manager
}

// Governor has this process follow the policy of its job.
type Governor struct {
	Job *control.Job // holds the policy; others see and change it there
	cfg Config

	client  *iopolicy.Client
	manager atomic.Pointer[throttle.Manager] // nil: no gate was needed yet

	mu      sync.Mutex
	held    iopolicy.Policy   // that of the job
	brief   bool              // a brief part: the I/O is passive
	process *priority.Process // nil: its priority is left alone
	shown   event.Job         // what does not change while the job is shown
	ledger  *report.Ledger    // nil: the job is not shown yet
	meter   report.Meter      // of the shown status
	metered time.Duration     // when the meter was used last, since the start of the job
}

// meterAge is the longest time between two uses of the meter after which it goes on. Its speeds are those of the last
// seconds only if it is used more often than that.
const meterAge = 10 * time.Second

// New returns a governor. It changes nothing yet.
func New(cfg Config) *Governor {
	g := &Governor{cfg: cfg, client: iopolicy.NewClient(cfg.Policy), held: cfg.Policy}
	g.Job = control.NewJob(cfg.Policy, control.Means{Show: g.show, Apply: g.apply, Impact: g.impact, Note: cfg.Note})
	return g
}

// IOPolicy returns the policy that the I/O follows now.
func (g *Governor) IOPolicy() iopolicy.Policy { return g.client.Policy() }

// Use has I/O and CPU follow a policy that the job chooses, from now on. What a person chose while it runs comes first.
func (g *Governor) Use(p iopolicy.Policy) {
	notes := g.examine()
	applied, err := g.Job.Prefer(p)
	if err != nil {
		applied = append(applied, err.Error())
	}
	for _, note := range append(notes, applied...) {
		g.cfg.Note(note)
	}
}

// examine finds out the CPU priority, from which it is changed, and has the kernel fetch nothing from a cloud.
func (g *Governor) examine() (notes []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		return nil
	}
	process, err := priority.This(g.cfg.ByKernel)
	if err != nil {
		notes = append(notes, "the CPU priority is unchanged: "+err.Error())
	}
	g.process = process
	if err := priority.FetchNothing(); err != nil {
		notes = append(notes, err.Error())
	}
	return notes
}

// apply has I/O and CPU follow a policy. The I/O does even if the CPU priority cannot be changed.
func (g *Governor) apply(p iopolicy.Policy) (notes []string, _ error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = p
	g.setIO()
	if g.ledger != nil {
		g.ledger.Policy(p.String())
	}
	if g.process == nil {
		return nil, nil
	}
	applied, err := g.process.Apply(p)
	if err != nil {
		return append(applied.Notes, "the CPU priority is unchanged: "+err.Error()), nil
	}
	return applied.Notes, nil
}

// setIO sets the I/O policy: that of the job, or Passive in a brief part. Passive never sleeps, and opens no window in
// which the job itself would have to sleep. g.mu is held.
func (g *Governor) setIO() {
	p := g.held
	if g.brief {
		p = iopolicy.Passive
	}
	if manager := g.manager.Load(); manager != nil {
		manager.SetPolicy(p)
	} else {
		g.client.SetPolicy(p)
	}
}

// Brief starts or ends a brief part: a few operations for which a person waits.
func (g *Governor) Brief(brief bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.brief = brief
	g.setIO()
}

// Yield applies the I/O policy throttle for work at the end of the job, for which no person waits.
func (g *Governor) Yield() {
	g.Job.Finish(iopolicy.Throttle, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.brief, g.held = false, iopolicy.Throttle
		g.setIO()
	})
}

// impact bounds what others lose.
func (g *Governor) impact(part float64) {
	if manager := g.manager.Load(); manager != nil {
		manager.SetMaxImpact(part)
	}
}

// Start calls start so that a child process has all processors of this process.
func (g *Governor) Start(start func() error) error {
	manager := g.manager.Load()
	if manager == nil {
		return start()
	}
	return manager.Start(start)
}

// Gates returns the gates of this process. The first call makes them, and applies the policy unless Use was called or a
// brief part runs.
func (g *Governor) Gates() *throttle.Manager {
	if manager := g.manager.Load(); manager != nil {
		return manager
	}
	g.mu.Lock()
	unused := g.process == nil && !g.brief
	g.mu.Unlock()
	if unused {
		g.Use(g.cfg.Policy)
	}
	manager := g.cfg.Open(g.client)
	manager.Follow(func(part float64) { g.own().Granted(part) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.manager.Store(manager)
	return manager
}

// Gate implements localfs.Gates: the pass for the device of an open directory, or of a path without one.
func (g *Governor) Gate(dir *localfs.Dir, path string) *iopolicy.Pass {
	return g.Gates().Gate(dir, path)
}

// Remote returns the pass for I/O with a server.
func (g *Governor) Remote(host string) *iopolicy.Pass { return g.Gates().Remote(host) }

// Rotational reports whether the device of a pass is a rotational disk.
func (g *Governor) Rotational(pass *iopolicy.Pass) bool { return g.Gates().Rotational(pass) }

// Compute calls work as priority.Process.Compute does.
func (g *Governor) Compute(work func(over func() bool)) {
	g.own().Compute(work)
}

// own returns this process, nil if its priority is left alone.
func (g *Governor) own() *priority.Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.process
}

// Flush passes a write that waits for the device of a path through its gate.
func (g *Governor) Flush(path string, write func() error) error {
	op := iopolicy.Op{Kind: iopolicy.Sync, Certain: true}
	// A key must be stored even if the run is interrupted.
	_, err := g.Gate(nil, path).Do(context.Background(), op, func(int) (int, error) { return 0, write() })
	return err
}

// Show has the job shown with what a status says and the counters of a ledger, which records its policies from now on.
func (g *Governor) Show(s event.Job, l *report.Ledger) {
	g.mu.Lock()
	g.shown, g.ledger = s, l
	g.mu.Unlock()
	l.Policy(g.Job.Policy().String())
	manager := g.Gates()
	l.Gates(report.SinceNow(func() []report.Gate { return manager.Report(g.Job.Policy()) }))
}

// show returns what the job does.
func (g *Governor) show() event.Job {
	g.mu.Lock()
	status, ledger := g.shown, g.ledger
	g.mu.Unlock()
	if ledger != nil {
		totals := ledger.Snapshot()
		status.Start = totals.Start
		status.Status = event.NewStatus(&totals, g.speeds(&totals), ledger.CurrentPaths())
	}
	return status
}

// speeds returns the speeds of the last seconds if it was called a few seconds ago, otherwise those since the start.
func (g *Governor) speeds(totals *report.Totals) report.Speeds {
	g.mu.Lock()
	defer g.mu.Unlock()
	if age := totals.Elapsed - g.metered; age < 0 || age > meterAge {
		g.meter = report.Meter{}
	}
	g.metered = totals.Elapsed
	return g.meter.Observe(totals)
}

// Close closes the gates at the end of the run.
func (g *Governor) Close() error {
	manager := g.manager.Load()
	if manager == nil {
		return nil
	}
	return manager.Close()
}
