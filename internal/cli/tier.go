package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func (a *app) tierCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tier",
		Short: "Show and change how running jobs give way to others",
		Long: `Shows and changes the I/O policy of jobs while they run. A job can also be sent SIGUSR2: each makes it one step more
important (throttle, utility, standard, important), and the next begins again at throttle.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(c, args[0])
			}
			return usagef("say what to do: show or set; see 'tidemark tier --help'")
		},
	}
	c.AddCommand(a.tierShowCommand(), a.tierSetCommand())
	return c
}

func (a *app) tierShowCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "show",
		Short: "List the running jobs of this user, their policies and their devices",
	}, func(ctx context.Context, _ []string) error {
		jobs, err := a.jobs(0)
		if err != nil {
			return err
		}
		all, err := each(jobs, func(j control.Running) (control.Status, error) { return j.Status(ctx) })
		return errors.Join(a.print.Print(&output.Jobs{List: all}), err)
	})
}

// grades are the policies that a job of this program can follow, the most considerate last.
func grades() []string { return []string{"important", "standard", "utility", "throttle"} }

// parseGrade reads one of them.
func parseGrade(word string) (iopolicy.Policy, error) {
	p, err := iopolicy.ParsePolicy(word)
	if err != nil || !slices.Contains(grades(), p.String()) {
		return p, usagef("policy %q: choose %s", word, strings.Join(grades(), ", "))
	}
	return p, nil
}

func (a *app) tierSetCommand() *cobra.Command {
	var process int
	c := a.command(&cobra.Command{
		Use:   "set [flags] POLICY",
		Short: "Change the policy of running jobs, at once",
		Long: `Makes running jobs follow another policy: important, standard, utility or throttle. What sleeps wakes up and decides
anew. Without --pid, all jobs of this user. Exit code 1 if there is none, or one could not be changed.`,
		Example: `  tidemark tier set important
  tidemark tier set --pid 1234 throttle`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: oneOf(grades()...),
	}, func(ctx context.Context, args []string) error {
		p, err := parseGrade(args[0])
		if err != nil {
			return err
		}
		jobs, err := a.jobs(process)
		if err != nil {
			return err
		}
		changes, err := each(jobs, func(j control.Running) (control.Change, error) { return j.SetPolicy(ctx, p) })
		for _, change := range changes {
			err = errors.Join(a.print.Print(&output.PolicyChange{Change: change}), err)
		}
		if err == nil && len(changes) == 0 {
			return noJob(process)
		}
		return err
	})
	c.Flags().Var(options.PID(&process), "pid", "only the job that runs as this process (default: all)")
	return c
}

func noJob(pid int) error {
	if pid != 0 {
		return fmt.Errorf("process %d is no running job of this user; 'tidemark tier show' lists them", pid)
	}
	return errors.New("no job of this user is running")
}

// jobs finds the running jobs of this user, or those of one process unless that is 0.
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

// each asks all jobs at once, so that one that does not answer keeps nobody waiting for the others, and returns the
// answers in the order of the jobs. One that has ended meanwhile is no job, and no error.
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
