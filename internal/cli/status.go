package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/daemon"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// The intervals of status --watch: on a terminal or with --json, and of lines that scroll.
const (
	watchEvery = time.Second
	linesEvery = 5 * time.Second
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "status [flags] [NAME]",
		Short: "Show the service, the running jobs and the last backup",
		Long: `Shows each job of the service, or the one of that name: what it does or waits for, its progress,
and the last and the next run. Other running jobs of this user are shown too. Without the service,
it shows what is remembered of the jobs of the option file; without jobs, when the default repository got
its last backup from this machine. Only with --repo a repository is opened, and all machines with
snapshots in it are shown.

The exit code is that of a monitoring plugin: 0 each backup is fresh, 1 one is stale or incomplete,
2 one failed or its repository is damaged, 3 unknown. A job is stale if its last complete backup is older
than ALERTAFTER, and the next one is overdue by ALERTAFTER too, or by 24 hours if that is less.

--watch repeats this until q or Ctrl-C: in place on a terminal, otherwise in lines every 5 seconds,
with --json every second.`,
		Example: `  tidemark status
  tidemark status --watch home`,
		Args: arguments(0, 1),
	}, func(ctx context.Context, args []string) error {
		name := strings.Join(args, "")
		if watch {
			return a.watchStatus(ctx, name)
		}
		return a.showStatus(ctx, name, c.Flags().Changed("repo"))
	})
	c.Flags().BoolVarP(&watch, "watch", "w", false, "repeat until q or Ctrl-C")
	return lenient(c)
}

// showStatus prints the status once. The exit code is that of the verdict. With machines, the repository is opened and
// all machines with snapshots in it are shown.
func (a *app) showStatus(ctx context.Context, name string, machines bool) error {
	unknown := func(err error) error { return &programError{output.VerdictCode(output.Unknown), err} }
	s, err := a.status(ctx, name, machines)
	if err != nil {
		return unknown(err)
	}
	if f := a.screen(); f != nil {
		s.Width, _ = show.TerminalSize(f)()
	}
	if err := a.print.Print(s); err != nil {
		return unknown(err)
	}
	switch code := output.VerdictCode(s.Verdict); {
	case s.Verdict == output.Damaged:
		return &programError{code, errors.New("a repository is damaged: 'tidemark check' shows what still stands")}
	case code != exitOK:
		return &programError{code: code} // the screen says why
	}
	return nil
}

// addMachines adds the machines with snapshots in the repository.
func (a *app) addMachines(ctx context.Context, o *event.Overview) error {
	return a.withRepository(ctx, func(r *repo.Repository) error {
		listed, err := r.Snapshots(ctx)
		if err != nil {
			return err
		}
		o.Machines = machines(listed, a.spec.Notify().AlertAfter, time.Now())
		for i := range listed {
			if listed[i].Snapshot == nil {
				o.Problems = append(o.Problems, fmt.Sprintf("snapshot %s: %v", listed[i].ID.Short(), listed[i].Err))
			}
		}
		return nil
	})
}

// machines returns the machines with snapshots, by name, and the time of the newest complete one of each. The clock of
// a machine may be wrong: a snapshot is not younger than the target's time of its file. limit is the age from which on
// a machine is stale; 0: never.
func machines(listed []repo.Listed, limit time.Duration, now time.Time) []event.Machine {
	newest := map[string]time.Time{}
	for i := range listed {
		sn := listed[i].Snapshot
		if sn == nil || sn.Partial {
			continue
		}
		at := newest[sn.Host]
		doubted := slices.ContainsFunc(sn.Held, func(h snapshot.Held) bool { return h.Doubted() })
		if made := madeAt(&listed[i]); sn.Stats.Objects.Failed == 0 && !doubted && made.After(at) {
			at = made
		}
		newest[sn.Host] = at
	}
	var all []event.Machine
	for _, host := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, event.Machine{Host: host, LastBackup: newest[host],
			Stale: limit > 0 && now.Sub(newest[host]) > limit})
	}
	return all
}

// madeAt returns when a snapshot was made.
func madeAt(l *repo.Listed) time.Time {
	made := l.Snapshot.Start.Std()
	if !l.Stored.IsZero() && l.Stored.Before(made) {
		return l.Stored
	}
	return made
}

// status asks the service and the running jobs, and with machines the repository.
func (a *app) status(ctx context.Context, name string, machines bool) (*output.Status, error) {
	o := event.Overview{State: event.ServiceAbsent}
	var proven proofs.Summary
	state, err := a.serviceDir()
	if err != nil {
		return nil, err
	}
	dir, err := a.runtimeDir()
	switch {
	case errors.Is(err, shared.ErrNoRuntimeDir): // as in cron and containers: no job has a socket there
		o.Problems = append(o.Problems, err.Error())
	case err != nil:
		return nil, err
	default:
		if o, err = control.Daemon(dir).Find(ctx, state); err != nil {
			o.Problems = append(o.Problems, err.Error())
		}
		jobs, err := control.Jobs(dir)
		if err != nil {
			return nil, fmt.Errorf("look for running jobs: %w", err)
		}
		o.Jobs, err = each(jobs, func(j control.Running) (event.Job, error) { return j.Status(ctx) })
		if err != nil && ctx.Err() == nil {
			o.Problems = append(o.Problems, err.Error())
		}
	}
	if o.Service == nil {
		a.offline(&o, state)
	}
	if err := only(&o, name); err != nil {
		return nil, err
	}
	if o.Service == nil && len(o.Defined) == 0 {
		proven = a.lastBackup(&o)
	}
	if machines {
		if err := a.addMachines(ctx, &o); err != nil {
			return nil, err
		}
	}
	return output.NewStatus(o, proven, a.spec.Notify().AlertAfter, time.Now()), nil
}

// offline adds the jobs of the option file, with what the state folder of the service has of them.
func (a *app) offline(o *event.Overview, state string) {
	jobs, invalid, _, err := a.definedJobs()
	if err == nil && len(jobs)+len(invalid) > 0 {
		o.Defined, err = daemon.Offline(state, hostName(), jobs, invalid)
	}
	if err != nil {
		o.Problems = append(o.Problems, err.Error())
	}
}

// only reduces an overview to one job of the service; name "": to nothing less.
func only(o *event.Overview, name string) error {
	if name == "" {
		return nil
	}
	jobs := o.DefinedJobs()
	var names []string
	for _, j := range *jobs {
		if strings.EqualFold(j.Name, name) {
			*jobs = []event.DaemonJob{j}
			o.Jobs = slices.DeleteFunc(o.Jobs, func(r event.Job) bool { return r.PID != j.PID })
			return nil
		}
		names = append(names, j.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no job %q: there is none; 'tidemark job add' adds one", name)
	}
	return fmt.Errorf("there is no job %q: there are %s", name, strings.Join(names, ", "))
}

// lastBackup adds what this machine recorded about the default repository: without opening it, which could need a
// secret.
func (a *app) lastBackup(o *event.Overview) (proven proofs.Summary) {
	at, err := a.place.Location()
	if err != nil {
		return proven
	}
	o.Repository = at.String()
	problem := func(err error) {
		if err != nil {
			o.Problems = append(o.Problems, err.Error())
		}
	}
	id, cache := "", a.spec.Cache()
	if cache.Enabled && cache.Dir != "" {
		id, _, err = caches.Last(cache.Dir, o.Repository)
		problem(err)
	}
	if id == "" {
		return proven
	}
	folder := filepath.Join(cache.Dir, id)
	all, err := snapcache.Published(folder)
	problem(err)
	for _, made := range all {
		if at := made.At.UTC(); !made.Missing && at.After(o.LastBackup) {
			o.LastBackup = at
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
	every, write := linesEvery, func(s *output.Status) error { return a.print.Print(output.StatusLog(s)) }
	if a.spec.Output().JSON {
		every, write = watchEvery, func(s *output.Status) error { return a.print.Print(s) }
	}
	screen := a.screen()
	if screen != nil {
		every = watchEvery
		size := show.TerminalSize(screen)
		noColor, _ := a.Env("NO_COLOR")
		frame := show.NewPrinter(screen, size, noColor == "")
		defer a.keys(stop)()
		defer frame.Clear()
		write = func(s *output.Status) error {
			s.Width, _ = size()
			s.Width-- // the last column makes some terminals wrap
			frame.Show(append(s.Lines(), show.Line{Text: "q: quit"}))
			return nil
		}
	}
	var failed error
	step := func() {
		s, err := a.status(ctx, name, false)
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
	}
	step()
	show.Repeat(ctx, every, screen != nil, step)
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
