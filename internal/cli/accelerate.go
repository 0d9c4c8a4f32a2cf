package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func (a *app) accelerateCommand() *cobra.Command {
	var process int
	var off bool
	term := time.Hour
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "accelerate [flags]",
		Short: "Let running jobs take precedence for an hour",
		Long: `Changes all running jobs of this user, or that of --pid, to the policy important for --for.
Then the policy that held before returns: it is short for
'tidemark tier set --all important --for 1h'. Without --pid, steps of the service that start within
the time are accelerated too.

--off ends the time at once. The exit code is 1 if no job runs, and no service either, or if a job
could not be changed.`,
		Example: `  tidemark accelerate
  tidemark accelerate --for 20m --pid 1234
  tidemark accelerate --off`,
	}, func(ctx context.Context, _ []string) error {
		if off && c.Flags().Changed("for") {
			return usagef("--for and --off exclude each other: choose one")
		}
		return a.accelerate(ctx, process, term, off)
	})
	c.Flags().Var(options.PID(&process), "pid", "only the job with this process ID")
	c.Flags().Var(options.DurationFlag(&term, control.LongestTerm), "for", "for how long")
	c.Flags().BoolVar(&off, "off", false, "return to the policy of before now")
	return lenient(c)
}

func (a *app) accelerate(ctx context.Context, process int, term time.Duration, off bool) error {
	jobs, err := a.jobs(process)
	if err != nil {
		return err
	}
	set := func(ctx context.Context, j control.Running) (event.PolicyChange, error) {
		return j.SetPolicy(ctx, iopolicy.Important, term)
	}
	order := control.Command{Action: control.Accelerate}
	if off {
		set = func(ctx context.Context, j control.Running) (event.PolicyChange, error) { return j.ReturnPolicy(ctx) }
	} else {
		order.Until = time.Now().Add(term)
	}
	serves := false
	if process == 0 { // before the jobs, so that a step that starts meanwhile is not missed
		if serves, err = a.orderService(ctx, order); err != nil {
			return err
		}
	}
	n, err := a.changeJobs(ctx, jobs, set)
	if err != nil || n > 0 {
		return err
	}
	if serves {
		a.print.Note("no job is running; the service starts its next steps accordingly")
		return nil
	}
	return noJob(process)
}

// orderService sends an order to the service, and reports whether there is one.
func (a *app) orderService(ctx context.Context, o control.Command) (serves bool, err error) {
	dir, err := a.runtimeDir()
	if err != nil {
		return false, fmt.Errorf("look for the service: %w", err)
	}
	_, err = control.Daemon(dir).Do(ctx, o)
	if errors.Is(err, control.ErrNoDaemon) {
		return false, nil
	}
	return err == nil, err
}
