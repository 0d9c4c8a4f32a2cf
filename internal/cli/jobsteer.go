package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// steerCommands are the verbs of the command job that the running service carries out.
func (a *app) steerCommands() []*cobra.Command {
	return []*cobra.Command{
		a.steerCommand(control.StartJob, "Run a job now",
			`Runs a job now, also in quiet hours, on battery and on a metered network. It waits for a run of the same
sources and repository, and for its disk.`),
		a.steerCommand(control.StopJob, "Stop the run of a job until its next time",
			`Stops the run of a job, or the wait for one. What was stored is kept; the next run is that of the schedule.`),
		a.pauseCommand(),
		a.steerCommand(control.ResumeJob, "End the pause of a job",
			`Ends the pause of a job. A run that the pause has stopped goes on. A time that was missed is caught up with one
run.`),
	}
}

// steerCommand is a verb for one job, or for all with a flag.
func (a *app) steerCommand(action control.Action, short, long string) *cobra.Command {
	var all bool
	c := a.command(&cobra.Command{
		Use:     string(action) + " [flags] [NAME]",
		Short:   short,
		Long:    long,
		Example: "  tidemark job " + string(action) + " home",
		Args:    arguments(0, 1),
	}, func(ctx context.Context, args []string) error {
		return a.steer(ctx, control.Command{Action: action}, args, all)
	})
	c.Flags().BoolVar(&all, allFlag, false, "all jobs to which it applies")
	return lenient(c)
}

func (a *app) pauseCommand() *cobra.Command {
	var all bool
	var until string
	var span time.Duration
	c := a.command(&cobra.Command{
		Use:   "pause [flags] [NAME]",
		Short: "Pause a job",
		Long: `Pauses a job until 'tidemark job resume', or until a time. A run stops in an orderly way, and goes on after the
pause; what was stored is kept. The pause outlasts a restart of the service.`,
		Example: `  tidemark job pause home
  tidemark job pause --all --for 2h
  tidemark job pause --until '2026-12-24 18:00' home`,
		Args: arguments(0, 1),
	}, func(ctx context.Context, args []string) error {
		o := control.Command{Action: control.PauseJob}
		switch {
		case until != "" && span != 0:
			return usagef("--until and --for exclude each other: choose one")
		case span < 0:
			return usagef("--for %s: give a positive duration", span)
		case span > 0:
			o.Until = time.Now().Add(span)
		case until != "":
			at, err := parseTime(until)
			if err != nil {
				return usagef("--until: %w", err)
			}
			o.Until = at
		}
		return a.steer(ctx, o, args, all)
	})
	c.Flags().BoolVar(&all, allFlag, false, "all jobs")
	c.Flags().StringVar(&until, "until", "", "end of the pause, such as '2006-01-02 15:04'")
	c.Flags().DurationVar(&span, "for", 0, "length of the pause, such as 2h")
	return lenient(c)
}

// steer sends an order to the service.
func (a *app) steer(ctx context.Context, o control.Command, args []string, all bool) error {
	switch {
	case all && len(args) > 0:
		return usagef("--all and a name exclude each other: choose one")
	case !all && len(args) == 0:
		return usagef("name a job, or give --all; 'tidemark status' shows the jobs")
	case !all:
		if o.Job = args[0]; o.Job == "" {
			return usagef("the name of the job is empty")
		}
	}
	dir, err := a.runtimeDir()
	if err != nil {
		return err
	}
	service := control.Daemon(dir)
	d, err := service.Do(ctx, o)
	if errors.Is(err, control.ErrLate) && o.Action == control.StartJob {
		a.print.Note("asked; the service has not answered yet, and starts the job when it goes on")
		return nil
	}
	if errors.Is(err, control.ErrNoDaemon) {
		err = a.unreachable(ctx, service, err)
	}
	if err != nil {
		return err
	}
	return a.print.Print(output.Steered(d, o.Job))
}

// unreachable returns the error of an order for a service without a socket, as status describes a service that runs all
// the same; otherwise absent.
func (a *app) unreachable(ctx context.Context, service control.Service, absent error) error {
	state, err := a.serviceDir()
	if err != nil {
		return absent
	}
	o, _ := service.Find(ctx, state) // without an answer, it is known whether it runs
	if o.State != event.ServiceStopped && o.State != event.ServiceUnreachable {
		return absent
	}
	return errors.New(output.Presence(&o))
}
