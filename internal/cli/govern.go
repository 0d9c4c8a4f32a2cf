package cli

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// usedCache is the cache folder of a repository, and where the repository is.
type usedCache struct{ folder, location string }

// newGovernor returns what has this process follow the policy of the options.
func (a *app) newGovernor() *governor.Governor {
	io := a.spec.IO()
	return governor.New(governor.Config{Policy: io.Choose(options.Attended), ByKernel: io.ByKernel, Open: a.openGates,
		Note: func(text string) { a.print.Note(text) }})
}

// openGates makes the gates for all locations that are known.
func (a *app) openGates(client *iopolicy.Client) (*throttle.Manager, error) {
	io := a.spec.IO()
	runtime, err := a.runtimeDir()
	if err != nil {
		runtime = "" // no shared state; serving the socket reports why
	}
	places := slices.Clone(a.sources)
	if at, err := a.location(); err == nil && !at.OnServer() {
		places = append(places, at.Folder)
	}
	state := a.stateDir()
	if state != "" {
		places = append(places, state)
	}
	return throttle.Open(throttle.Config{ //nolint:wrapcheck // the governor says what it means
		Client: client, Settings: io.Settings, Medium: io.Medium, Runtime: runtime, State: state, Blame: io.Blame,
		Idle: foreign.Idle(), Devices: a.devices,
	}, places...)
}

// applyPolicy applies the policy of a use to I/O and CPU from now on.
func (a *app) applyPolicy(use options.Use) { a.governor.Use(a.spec.IO().Choose(use)) }

// publish makes the job visible and changeable by a socket and SIGUSR2, until stop is called. Failure is only a note.
func (a *app) publish(ctx context.Context, job string, sources []string, l *report.Ledger) (stop func()) {
	repository := "" // opening it says what is wrong
	if at, err := a.location(); err == nil {
		repository = at.String()
	}
	a.governor.Show(control.Status{Job: job, Sources: sources, Repository: repository}, l)
	ctx, cancel := context.WithCancel(ctx)
	control.OnSignal(ctx, a.governor.Job, a.print.Note)
	end, served := a.serve(ctx, a.governor.Job)
	if served {
		l.Reachable(os.Getpid())
	}
	return func() { end(); cancel() }
}

// serve serves the socket of a job until stop is called, if it can be made.
func (a *app) serve(ctx context.Context, job *control.Job) (stop func(), served bool) {
	dir, err := a.runtimeDir()
	if err == nil {
		if stop, err = control.Serve(ctx, dir, job); err == nil {
			return stop, true
		}
	}
	// Cron and containers often have no runtime directory: nothing is wrong with that.
	if !errors.Is(err, shared.ErrNoRuntimeDir) || a.spec.Output().Verbose > 0 {
		a.print.Note("'tidemark tier' cannot see this job: " + err.Error())
	}
	return func() {}, false
}

// runtimeDir returns the folder of the sockets.
func (a *app) runtimeDir() (string, error) { return shared.RuntimeDir(a.Env) }

// stateDir returns the folder in which runs on this machine keep what they measured; "" for none.
func (a *app) stateDir() string {
	if cache := a.spec.Cache(); cache.Enabled {
		return cache.Dir
	}
	return ""
}

// known returns what is known about a device, with what earlier runs measured.
func (a *app) known(info device.Info) device.Info { return throttle.Known(a.stateDir(), info) }

// leave closes the connections and the gates at the end of the run.
func (a *app) leave() {
	for _, st := range a.remotes {
		if err := st.Close(); err != nil {
			a.print.Note(err.Error())
		}
	}
	for _, c := range a.opened {
		caches.Opened(c.folder, c.location)
	}
	if a.governor == nil {
		return
	}
	if err := a.governor.Close(); err != nil && a.spec.Output().Verbose > 0 {
		a.print.Note(err.Error())
	}
}
