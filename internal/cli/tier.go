package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func (a *app) tierCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "tier",
		Short: "Show and change the I/O policy of running jobs",
		Long: `Shows and changes the I/O policy of running jobs. Jobs also react to SIGUSR2: each signal moves to the next
policy (throttle, utility, standard, important, and throttle again).`,
	}, "show or set", a.tierShowCommand(), a.tierSetCommand())
}

func (a *app) tierShowCommand() *cobra.Command {
	return lenient(a.command(&cobra.Command{
		Use:   "show",
		Short: "List the running jobs of this user with their policies and devices",
	}, func(ctx context.Context, _ []string) error {
		jobs, err := a.jobs(0)
		if err != nil {
			return err
		}
		all, err := each(jobs, func(j control.Running) (event.Job, error) { return j.Status(ctx) })
		return errors.Join(a.print.Print(output.Jobs(all)), err)
	}))
}

func (a *app) tierSetCommand() *cobra.Command {
	var process int
	var all bool
	var impact *float64
	var term time.Duration
	c := a.command(&cobra.Command{
		Use:   "set [flags] [POLICY]",
		Short: "Change the policy of running jobs",
		Long: `Changes the policy of the running job of this user to important, standard, utility or throttle. If several run,
name one with --pid, or change all with --all.

The change takes effect immediately, also for I/O that is waiting. With --for, the policy that held
before returns after that time; the next change of the policy without --for ends the time.
--max-impact changes how much other processes may be slowed, with or without a policy. The exit code
is 1 if no job runs, or if one could not be changed.`,
		Example: `  tidemark tier set important
  tidemark tier set important --for 30m
  tidemark tier set --pid 1234 throttle
  tidemark tier set --all --max-impact 20%`,
		Args:              arguments(0, 1),
		ValidArgsFunction: oneOf(options.PolicyNames()...),
	}, func(ctx context.Context, args []string) error {
		set, err := changeOf(args, term, impact)
		if err != nil {
			return err
		}
		if all && process != 0 {
			return usagef("--all and --pid exclude each other: choose one")
		}
		jobs, err := a.jobs(process)
		if err != nil {
			return err
		}
		if len(jobs) > 1 && !all {
			return severalJobs(jobs)
		}
		n, err := a.changeJobs(ctx, jobs, set)
		if err == nil && n == 0 {
			return noJob(process)
		}
		return err
	})
	c.Flags().Var(options.PID(&process), "pid", "the job with this process ID")
	c.Flags().BoolVar(&all, allFlag, false, "all running jobs of this user")
	c.Flags().Var(options.DurationFlag(&term, control.LongestTerm), "for",
		"for how long, such as 30m (default: until the next change)")
	c.Flags().Var(options.PercentFlag(&impact), "max-impact",
		"how much the jobs may slow other processes: a percentage")
	return lenient(c)
}

// changeJobs applies a change to jobs, and returns how many were changed.
func (a *app) changeJobs(ctx context.Context, jobs []control.Running, set change) (n int, err error) {
	changes, err := each(jobs, func(j control.Running) (event.PolicyChange, error) { return set(ctx, j) })
	for _, c := range changes {
		err = errors.Join(a.print.Print(output.PolicyChange(c)), err)
	}
	return len(changes), err
}

// change is a request to a job.
type change func(context.Context, control.Running) (event.PolicyChange, error)

// changeOf returns the change to apply to each job.
func changeOf(args []string, term time.Duration, impact *float64) (change, error) {
	if len(args) == 0 {
		switch {
		case term != 0:
			return nil, usagef("--for belongs to a policy: name one (%s)", strings.Join(options.PolicyNames(), ", "))
		case impact == nil:
			return nil, usagef("name a policy (%s) or give --max-impact", strings.Join(options.PolicyNames(), ", "))
		}
		return func(ctx context.Context, j control.Running) (event.PolicyChange, error) {
			return j.SetMaxImpact(ctx, *impact)
		}, nil
	}
	p, err := iopolicy.ParsePolicy(args[0])
	if err != nil || !slices.Contains(options.PolicyNames(), p.String()) {
		return nil, usagef("policy %q: choose %s", args[0], strings.Join(options.PolicyNames(), ", "))
	}
	return func(ctx context.Context, j control.Running) (event.PolicyChange, error) {
		c, err := j.SetPolicy(ctx, p, term)
		if err != nil || impact == nil {
			return c, err
		}
		more, err := j.SetMaxImpact(ctx, *impact)
		c.Notes = append(c.Notes, more.Notes...)
		return c, err
	}, nil
}

// severalJobs returns the usage error for a change that could be meant for any of several jobs.
func severalJobs(jobs []control.Running) error {
	var pids []string
	for _, j := range jobs {
		pids = append(pids, strconv.Itoa(j.PID))
	}
	return usagef("%d jobs are running (processes %s): name one with --pid, or change all with --all; 'tidemark tier "+
		"show' lists them",
		len(jobs), strings.Join(pids, ", "))
}

func noJob(pid int) error {
	if pid != 0 {
		return fmt.Errorf("process %d is no running job of this user; 'tidemark tier show' lists them", pid)
	}
	return errors.New("no job of this user is running")
}

// jobs returns the running jobs of this user, or that of one process unless pid is 0.
func (a *app) jobs(pid int) ([]control.Running, error) {
	dir, err := a.runtimeDir()
	if err != nil {
		return nil, fmt.Errorf("look for running jobs: %w", err)
	}
	all, err := control.Jobs(dir)
	if err != nil {
		return nil, fmt.Errorf("look for running jobs: %w", err)
	}
	if pid != 0 {
		all = slices.DeleteFunc(all, func(j control.Running) bool { return j.PID != pid })
	}
	return all, nil
}

// each queries all jobs in parallel, since one may not answer, and returns the answers in the order of jobs. A job that
// has ended meanwhile is skipped.
func each[T any](jobs []control.Running, ask func(control.Running) (T, error)) ([]T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make([]answer, len(jobs))
	var asking sync.WaitGroup
	for i, j := range jobs {
		asking.Go(func() { answers[i].value, answers[i].err = ask(j) })
	}
	asking.Wait()
	var all []T
	var failed error
	for _, one := range answers {
		if one.err == nil {
			all = append(all, one.value)
		} else if !errors.Is(one.err, control.ErrGone) {
			failed = cmp.Or(failed, one.err)
		}
	}
	return all, failed
}
