package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/repo/published"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// The intervals of status --watch: on a terminal or with --json, and of lines that scroll.
const (
	watchEvery = time.Second
	linesEvery = 5 * time.Second
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	c := a.command(&cobra.Command{
		Use:   "status [flags] [NAME]",
		Short: "Show the service, the running jobs and the last backup",
		Long: `Shows each job of the service, or the one of that name: what it does or waits for, its progress,
and the last and the next run. Other running jobs of this user are shown too. Without the service,
it shows the running jobs, and when the default repository got its last backup from this machine. No
repository is opened.

--watch repeats this until q or Ctrl-C: in place on a terminal, otherwise in lines every 5 seconds,
with --json every second.`,
		Example: `  tidemark status
  tidemark status --watch home`,
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, args []string) error {
		name := strings.Join(args, "")
		if watch {
			return a.watchStatus(ctx, name)
		}
		s, err := a.status(ctx, name)
		if err != nil {
			return err
		}
		if f := a.screen(); f != nil {
			s.Width, _ = show.TerminalSize(f)()
		}
		if err := a.print.Print(s); err != nil || !s.Damaged() {
			return err
		}
		return errDamaged
	})
	c.Flags().BoolVarP(&watch, "watch", "w", false, "repeat until q or Ctrl-C")
	return lenient(c)
}

// status asks the service and the running jobs.
func (a *app) status(ctx context.Context, name string) (*output.Status, error) {
	o := event.Overview{}
	var proven proofs.Summary
	dir, err := a.runtimeDir()
	switch {
	case errors.Is(err, shared.ErrNoRuntimeDir): // as in cron and containers: no job has a socket there
		o.Problems = append(o.Problems, err.Error())
	case err != nil:
		return nil, err
	default:
		d, err := control.Daemon(dir).Status(ctx)
		switch {
		case err == nil:
			o.Service = &d
		case !errors.Is(err, control.ErrNoDaemon):
			o.Problems = append(o.Problems, err.Error())
		}
		jobs, err := control.Jobs(dir)
		if err != nil {
			return nil, fmt.Errorf("look for running jobs: %w", err)
		}
		o.Jobs, err = each(jobs, func(j control.Running) (control.Status, error) { return j.Status(ctx) })
		if err != nil && ctx.Err() == nil {
			o.Problems = append(o.Problems, err.Error())
		}
	}
	if err := only(&o, name); err != nil {
		return nil, err
	}
	if o.Service == nil {
		proven = a.lastBackup(&o)
	}
	return output.NewStatus(o, proven, time.Now()), nil
}

// only reduces an overview to one job of the service; name "": to nothing less.
func only(o *event.Overview, name string) error {
	switch {
	case name == "":
		return nil
	case o.Service == nil:
		return fmt.Errorf("job %q is unknown: %w", name, control.ErrNoDaemon)
	}
	var names []string
	for _, j := range o.Service.Jobs {
		if j.Name == name {
			o.Service.Jobs = []event.DaemonJob{j}
			o.Jobs = slices.DeleteFunc(o.Jobs, func(r event.Job) bool { return r.PID != j.PID })
			return nil
		}
		names = append(names, j.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("the service has no job %q: it has none; 'tidemark job add' adds one", name)
	}
	return fmt.Errorf("the service has no job %q: there are %s", name, strings.Join(names, ", "))
}

// lastBackup adds what this machine recorded about the default repository: without opening it, which could need a
// secret.
func (a *app) lastBackup(o *event.Overview) (proven proofs.Summary) {
	at, err := a.location()
	if err != nil {
		return proven
	}
	o.Repository = at.String()
	problem := func(err error) {
		if err != nil {
			o.Problems = append(o.Problems, err.Error())
		}
	}
	folder := ""
	if cache := a.spec.Cache(); cache.Enabled && cache.Dir != "" {
		folder, err = caches.Find(cache.Dir, o.Repository)
		problem(err)
	}
	if folder == "" {
		return proven
	}
	all, err := published.Read(folder)
	problem(err)
	for _, made := range all {
		if o.LastBackup == nil || made.After(*o.LastBackup) {
			made := made.UTC()
			o.LastBackup = &made
		}
	}
	proven, err = proofs.ReadSummary(folder)
	problem(err)
	return proven
}

// screen returns the terminal that standard output is, nil if it is none or JSON is wanted.
func (a *app) screen() *os.File {
	name, _ := a.Env("TERM")
	f, ok := a.Out.(*os.File)
	if !ok || a.spec.Output().JSON || !show.IsTerminal(f, name) {
		return nil
	}
	return f
}

// watchStatus shows the status until ctx ends or a person wants no more of it. The end is no error.
func (a *app) watchStatus(ctx context.Context, name string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	every, write := linesEvery, func(s *output.Status) error { return a.print.Print(&output.StatusLog{Status: s}) }
	if a.spec.Output().JSON {
		every, write = watchEvery, func(s *output.Status) error { return a.print.Print(s) }
	}
	var resized <-chan os.Signal
	if f := a.screen(); f != nil {
		every = watchEvery
		size := show.TerminalSize(f)
		noColor, _ := a.Env("NO_COLOR")
		frame := show.NewPrinter(f, size, noColor == "")
		defer a.keys(stop)()
		defer frame.Clear()
		var forget func()
		resized, forget = show.Resized()
		defer forget()
		write = func(s *output.Status) error {
			s.Width, _ = size()
			s.Width-- // the last column makes some terminals wrap
			frame.Show(append(s.Lines(), show.Line{Text: "q: quit"}))
			return nil
		}
	}
	var failed error
	show.Watch(ctx, every, resized, func() {
		s, err := a.status(ctx, name)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			s.Watched = true
			err = write(s)
		}
		if err != nil {
			failed = err
			stop()
		}
	})
	return failed
}

// keys calls quit when a person presses q or Ctrl-C, until restore is called. Without a terminal on standard input it
// does nothing: Ctrl-C is a signal then.
func (a *app) keys(quit func()) (restore func()) {
	f, ok := a.In.(*os.File)
	if !ok {
		return func() {}
	}
	fd := int(f.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return func() {}
	}
	go func() {
		const ctrlC, ctrlD, ctrlBackslash = 3, 4, 28
		for p := make([]byte, 1); ; {
			n, err := f.Read(p)
			if err != nil || n == 1 && slices.Contains([]byte{'q', 'Q', ctrlC, ctrlD, ctrlBackslash}, p[0]) {
				quit()
				return
			}
		}
	}()
	return func() { _ = term.Restore(fd, before) }
}
