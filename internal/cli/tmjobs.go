package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/tm"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// service returns the service of this user and its state, nil if it does not run.
func (a *app) service(ctx context.Context) (control.Service, *event.Daemon, error) {
	dir, err := a.runtimeDir()
	if err != nil {
		return control.Service{}, nil, fmt.Errorf("look for the service: %w", err)
	}
	s := control.Daemon(dir)
	d, err := s.Status(ctx)
	if errors.Is(err, control.ErrNoDaemon) {
		return s, nil, nil
	}
	if err != nil {
		return s, nil, err
	}
	return s, &d, nil
}

// runningBackups returns the backups of this user that run.
func (a *app) runningBackups(ctx context.Context) ([]event.Job, error) {
	jobs, err := a.jobs(0)
	if err != nil {
		return nil, err
	}
	all, err := each(jobs, func(j control.Running) (control.Status, error) { return j.Status(ctx) })
	return slices.DeleteFunc(all, func(j event.Job) bool { return j.Job != "backup" }), err
}

func (a *app) tmStatusCommand() *cobra.Command {
	var xml *bool
	c := a.command(&cobra.Command{
		Use:   "status [flags]",
		Short: "Show the backup that runs",
		Long:  `Shows the backup of this user that runs, as a property list. Times are in UTC.`,
	}, func(ctx context.Context, _ []string) error {
		_, d, err := a.service(ctx)
		if err != nil {
			return err
		}
		jobs, err := a.runningBackups(ctx)
		return errors.Join(a.print.Print(&tm.Status{Jobs: jobs, Daemon: d, XML: *xml}), err)
	})
	xml = xmlFlag(c)
	return c
}

func (a *app) tmDestinationCommand() *cobra.Command {
	var xml *bool
	c := a.command(&cobra.Command{
		Use:   "destinationinfo [flags]",
		Short: "Show the repository",
	}, func(ctx context.Context, _ []string) error {
		at, err := a.location()
		if err != nil {
			return err
		}
		st, err := a.store(ctx)
		if err != nil {
			return err
		}
		id := repositoryID(ctx, st)
		if id == "" {
			return fmt.Errorf("open repository at %s: %w", at, repo.ErrNoRepository)
		}
		return a.print.Print(&tm.Destination{Name: path.Base(at.String()), ID: id, Network: at.OnShare(),
			Location: at.String(), XML: *xml})
	}, options.GroupPolicy)
	xml = xmlFlag(c)
	return c
}

func (a *app) tmStartCommand() *cobra.Command {
	var block, auto bool
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "startbackup [flags]",
		Short: "Start a backup",
		Long: `Starts all jobs of the service. With --block it waits until they have ended; the exit code is 1 if one of them
failed, and 3 if one lacks some files.

If the service does not run, --block backs up the DOMAIN of the option file in this process; the exit codes are those of
backup.`,
	}, func(ctx context.Context, _ []string) error {
		s, d, err := a.service(ctx)
		if err != nil {
			return err
		}
		switch {
		case d != nil:
			return a.startJobs(ctx, s, d, block)
		case !block:
			return errors.New("the service does not run: start it, or add --block to back up in this process")
		case len(a.spec.Domain()) == 0:
			return usagef("the option file names no sources: add a line DOMAIN, or run 'tidemark setup'")
		}
		if auto && !c.Flags().Changed("policy") {
			if err := c.Flags().Set("policy", "throttle"); err != nil {
				return usagef("--auto: %w", err)
			}
			if err := a.resolve(c); err != nil {
				return err
			}
		}
		return a.backup(ctx, &backupFlags{}, nil)
	}, options.GroupPolicy)
	c.Flags().BoolVarP(&block, "block", "b", false, "wait until the backup has ended")
	c.Flags().BoolVarP(&auto, "auto", "a", false, "yield to other programs, as a scheduled backup; without the service")
	return c
}

// pollEvery is how often the state of the service is read.
const pollEvery = time.Second

// startJobs starts all jobs of the service, which was in the state before. With block it waits for the end of each.
func (a *app) startJobs(ctx context.Context, s control.Service, before *event.Daemon, block bool) error {
	now, err := s.Do(ctx, control.Command{Action: control.StartJob})
	if err != nil || !block {
		return err
	}
	last := map[string]string{}
	for _, j := range before.Jobs {
		last[j.Name] = runID(&j)
	}
	for {
		var failed []string
		waits, incomplete := false, false
		for _, j := range now.Jobs {
			switch {
			case runID(&j) == last[j.Name] || busy(j):
				waits = waits || j.State != "paused"
			case j.LastRun.Outcome == "incomplete":
				incomplete = true
			case j.LastRun.Outcome != "done":
				failed = append(failed, j.Name+": "+j.LastRun.Message)
			}
		}
		switch {
		case waits:
		case len(failed) > 0:
			return fmt.Errorf("not all jobs ended well: %s", strings.Join(failed, "; "))
		case incomplete:
			return errIncomplete
		default:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
		if now, err = s.Status(ctx); err != nil {
			return err
		}
	}
}

// busy reports whether a job runs, or soon will.
func busy(j event.DaemonJob) bool { return j.State == "running" || j.State == "waiting" }

// runID returns the ID of the last run of a job, "" for none.
func runID(j *event.DaemonJob) string {
	if j.LastRun == nil {
		return ""
	}
	return j.LastRun.ID
}

func (a *app) tmStopCommand() *cobra.Command {
	var process int
	c := a.command(&cobra.Command{
		Use:   "stopbackup [flags]",
		Short: "Stop the backup that runs",
		Long: `Asks the backup of this user that runs to end. What it has stored is not sent again. Jobs of the service are
stopped by the service.`,
	}, func(ctx context.Context, _ []string) error {
		if process == 0 {
			s, d, err := a.service(ctx)
			if err != nil {
				return err
			}
			if d != nil && slices.ContainsFunc(d.Jobs, busy) {
				_, err := s.Do(ctx, control.Command{Action: control.StopJob})
				return err
			}
		}
		jobs, err := a.runningBackups(ctx)
		if err != nil {
			return err
		}
		if process != 0 {
			jobs = slices.DeleteFunc(jobs, func(j event.Job) bool { return j.PID != process })
		}
		switch len(jobs) {
		case 0:
			return errors.New("no backup of this user is running")
		case 1:
		default:
			var pids []string
			for _, j := range jobs {
				pids = append(pids, strconv.Itoa(j.PID))
			}
			return usagef("%d backups are running (processes %s): name one with --pid", len(jobs), strings.Join(pids, ", "))
		}
		if err := syscall.Kill(jobs[0].PID, syscall.SIGINT); err != nil {
			return fmt.Errorf("stop process %d: %w", jobs[0].PID, err)
		}
		return a.print.Print(&tm.Stopped{PID: jobs[0].PID})
	})
	c.Flags().Var(options.PID(&process), "pid", "the backup with this process ID")
	return c
}
