package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// use makes options those of the run.
func (a *app) use(spec *options.Spec) {
	if a.returnCodes {
		spec = spec.WithDefault("report", "full") // as IBM's client reports
	}
	if !a.before.IsZero() {
		spec = spec.With("no-cache", true) // the cache is of today
	}
	a.spec = spec
	note := func(text string) { a.print.Note(text) }
	if a.place == nil {
		a.place = place.New(place.Config{Env: a.Env, Devices: a.devices, Terminal: a.Err, Note: note, Warn: a.warnAlways,
			Show: func(text string) { a.print.Show(text) }})
	}
	a.place.Before = a.before
	io := spec.IO()
	a.governor = governor.New(governor.Config{Policy: io.Choose(options.Attended), ByKernel: io.ByKernel, Note: note,
		Open: a.place.OpenGates})
	a.place.Use(spec, a.governor)
}

// applyPolicy applies the policy of a use to I/O and CPU from now on.
func (a *app) applyPolicy(use options.Use) { a.governor.Use(a.spec.IO().Choose(use)) }

// begin begins a job, which other processes see and change by a socket and SIGUSR2 until end is called. If they cannot,
// that is only a note.
func (a *app) begin(ctx context.Context, kind report.Kind, sources ...string) (l *report.Ledger, end func()) {
	l = report.NewJob(kind, time.Now)
	a.place.Intake.Attach(l)
	repository := "" // opening it says what is wrong
	if at, err := a.place.Location(); err == nil {
		repository = at.String()
	}
	a.governor.Show(event.Job{Job: kind.String(), Sources: sources, Repository: repository}, l)
	ctx, cancel := context.WithCancel(ctx)
	control.OnSignal(ctx, a.governor.Job, a.print.Note)
	stop, served := a.serve(ctx, a.governor.Job)
	if served {
		l.Reachable(os.Getpid())
	}
	return l, func() { stop(); cancel() }
}

// writes sets the options of a session whose writes count in a ledger.
func (a *app) writes(s *repo.SessionOptions, l *report.Ledger) {
	s.Host = hostName()
	s.Level, _ = a.spec.Compression()
	if s.Level == 0 {
		s.Level = -1 // off; 0 is the default of a session
	}
	s.Ledger, s.Note = l, a.print.Note
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

// leave closes the connections and the gates at the end of the run.
func (a *app) leave() {
	if a.place == nil {
		return
	}
	a.place.Close()
	if err := a.governor.Close(); err != nil && a.spec.Output().Verbose > 0 {
		a.print.Note(err.Error())
	}
}

// warnAlways prints a note that --quiet does not suppress: as text by Show, as JSON by Note.
func (a *app) warnAlways(text string) {
	a.print.Note(text)
	if a.spec.Output().Quiet {
		a.print.Show(text + "\n")
	}
}

// open opens the repository.
func (a *app) open(ctx context.Context) (*repo.Repository, error) {
	a.hintUnnamed()
	return a.place.Open(ctx)
}

// store opens the store of the repository.
func (a *app) store(ctx context.Context) (store.Store, error) {
	a.hintUnnamed()
	return a.place.Store(ctx)
}

// hintUnnamed hints at variables of other programs if the repository is the default one.
func (a *app) hintUnnamed() {
	if _, err := a.place.Location(); err == nil && !a.spec.Repository().Named {
		a.hintVariables()
	}
}

// label describes the creator of a key.
func label() string { return userName() + "@" + hostName() }

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprint(os.Getuid())
	}
	return u.Username
}
