package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/daemon"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/notify"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

func (a *app) daemonCommand() *cobra.Command {
	var once bool
	c := a.command(&cobra.Command{
		Use:   "daemon [flags]",
		Short: "Run the jobs of the option file by their schedules",
		Long: `Runs the service in the foreground until a signal ends it. Each stanza of the option file with a SCHEDULE line
is a job. 'tidemark status' shows what the service does, 'tidemark job' starts, stops and pauses jobs, and 'tidemark
log' shows what was done.

A change of the option file takes effect within a minute, or at SIGHUP. A job with a mistake is reported; it runs as it
was before, or not at all after a restart.

--once runs what is due and ends, for cron: '*/5 * * * * tidemark daemon --once'. Its exit code is 1 if a run failed,
3 if none failed and one was incomplete.`,
		Example: `  tidemark daemon
  tidemark daemon --once`,
	}, func(ctx context.Context, _ []string) error { return a.daemon(ctx, once) })
	c.Flags().BoolVar(&once, "once", false, "run what is due, then end")
	return lenient(c)
}

// jobList is the jobs that were read last.
type jobList struct {
	mu     sync.Mutex
	jobs   []*job.Job
	former []*job.Job // they left the option file, or have a mistake now
	own    options.Notify
}

func (l *jobList) set(jobs []*job.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.former = slices.DeleteFunc(append(l.former, l.jobs...), func(j *job.Job) bool {
		_, err := job.Find(jobs, j.Name)
		return err == nil
	})
	l.jobs = jobs
}

// notify returns where a job reports, or reported while it was valid; one that never was, which is not known, and the
// service report where the service does.
func (l *jobList) notify(name string) (o options.Notify, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, jobs := range [][]*job.Job{l.jobs, l.former} {
		if j, err := job.Find(jobs, name); err == nil {
			return j.Spec.Notify(), true
		}
	}
	return l.own, false
}

func (l *jobList) all() []*job.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.jobs)
}

func (l *jobList) names() (all []string) {
	for _, j := range l.all() {
		all = append(all, j.Name)
	}
	return all
}

func (a *app) daemon(ctx context.Context, once bool) (err error) {
	file := a.spec.File()
	if file == "" {
		return usagef("there is no option file: 'tidemark setup' writes one, and 'tidemark job add' adds a job")
	}
	if file, err = filepath.Abs(file); err != nil {
		return fmt.Errorf("find the option file: %w", err)
	}
	state, err := a.serviceDir()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	runtime, err := a.runtimeDir()
	if errors.Is(err, shared.ErrNoRuntimeDir) {
		a.print.Note("'tidemark status' and 'tidemark job' cannot reach this service: " + err.Error())
	} else if err != nil {
		return err
	}
	list := &jobList{own: a.spec.Notify()}
	sink, end, err := a.sinks(state, runtime, list)
	if err != nil {
		return err
	}
	release := a.ending.hold() // its steps end by themselves
	defer release()
	defer a.ending.within(end)
	watchdog, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("read the watchdog's interval: %w", err)
	}
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	return daemon.Run(ctx, &daemon.Config{
		OptionFile: file, StateDir: state, RuntimeDir: runtime, Host: hostName(), Once: once,
		World: daemon.World{
			Clock: daemon.SystemClock{}, Machine: machinestate.New(), Sink: sink, Reload: reload, Notify: notifySystemd,
			Watchdog: watchdog,
			Start: func(s daemon.Step, progress func(*event.Status)) (daemon.Process, error) {
				return daemon.StartChild(program, os.Environ(), s, progress)
			},
		},
		Facts: daemon.Facts{
			Remote: daemon.Remote, Damage: daemon.Damage, Settle: a.settleHooks, Access: list.access(ctx),
			Load: func() ([]*job.Job, []job.Invalid, error) {
				jobs, invalid, err := job.LoadFile(file, a.Env, os.ReadFile)
				if err != nil {
					return nil, nil, &usageError{err}
				}
				list.set(jobs)
				return jobs, invalid, nil
			},
		},
	})
}

// notifySystemd reports a state to systemd, if it is asked for.
func notifySystemd(state string) {
	if state == systemd.SdNotifyReloading {
		state += "\n" + systemd.SdNotifyMonotonicUsec()
	}
	_, _ = systemd.SdNotify(false, state) // systemd is missing, or notices it by itself
}

// sinks returns what records and reports the events of the service, until end is called.
func (a *app) sinks(state, runtime string, list *jobList) (all record.Sink, end func(), err error) {
	var closers []func() error
	closeAll := func() {
		for _, one := range slices.Backward(closers) {
			_ = one() // nothing listens any more
		}
	}
	log, err := record.Open(state, a.print.Note)
	if err != nil {
		return nil, nil, err
	}
	closers = append(closers, log.Close)
	sinks := []record.Sink{log.Event}
	if stream, _ := a.Env("JOURNAL_STREAM"); stream == "" {
		sinks = append(sinks, a.event)
	}
	var past []event.Run
	for run, err := range record.Runs(state, record.Filter{}) {
		if err != nil {
			a.print.Note(err.Error())
			break
		}
		past = append(past, run)
	}
	own := a.spec.Notify()
	if system, err := notify.OpenLog(own.Syslog); err != nil {
		a.print.Note(err.Error())
	} else if system != nil {
		sinks, closers = append(sinks, system.Event), append(closers, system.Close)
	}
	if own.MetricsFile != "" || own.MetricsAt != "" {
		metrics := notify.NewMetrics(notify.MetricsConfig{File: own.MetricsFile, Address: own.MetricsAt,
			Group: own.MetricsFor, Service: stateOf(runtime), Jobs: list.names, Warn: a.print.Note}, past)
		sinks, closers = append(sinks, metrics.Event), append(closers, metrics.Close)
	}
	people := notify.New(notify.Config{Of: list.notify, Jobs: list.names, Log: log.Event, Host: hostName(),
		Dir: filepath.Join(state, "notify"), Past: past})
	closers = slices.Insert(closers, 1, people.Close) // after those that do not wait for a server, before the log
	sinks = append(sinks, people.Event)
	return func(e *record.Event) {
		for _, sink := range sinks {
			sink(e)
		}
	}, closeAll, nil
}

// stateOf returns a function that asks the service in a folder for its state; nil: it does not answer.
func stateOf(runtime string) func() *event.Daemon {
	if runtime == "" {
		return nil
	}
	return func() *event.Daemon {
		d, err := control.Daemon(runtime).Status(context.Background())
		if err != nil {
			return nil
		}
		return &d
	}
}

// event prints the line of an event.
func (a *app) event(e *record.Event) {
	if line, ok := record.Line(e); ok {
		a.print.Note(line.Sentence())
	}
}
