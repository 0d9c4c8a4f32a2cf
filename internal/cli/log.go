package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// followEvery is how often log --follow looks for new lines.
const followEvery = time.Second

type logFlags struct {
	record.Filter
	since        string
	follow, runs bool
	failed       bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "log [flags]",
		Short: "Show what the service did",
		Long: `Shows the log of the service of this user, oldest first, or its runs as a table. It reads files in the state
folder, so the service does not have to run.

--failed lists the objects that failed in the run of --run, which 'tidemark log --runs --json' and messages name.

--since takes a duration before now, such as 2h, or a time, such as 2006-01-02 or "2006-01-02 15:04".`,
		Example: `  tidemark log --since 24h
  tidemark log --job home --runs --last 10
  tidemark log --failed --run 20261124T023000Z-mfq3xkz7
  tidemark log --follow`,
	}, func(ctx context.Context, _ []string) error {
		if f.Job == "" {
			f.Job = a.server(c.Flags())
		}
		return a.showLog(ctx, &f)
	})
	flags := c.Flags()
	flags.StringVar(&f.Job, "job", "", "only this job, as --server-name does")
	flags.StringVar(&f.Run, "run", "", "only the run of this ID")
	flags.StringVar(&f.since, "since", "", "only what is younger: a duration or a time")
	flags.IntVar(&f.Last, "last", 0, "only the newest of these (default: all)")
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with new lines, until Ctrl-C")
	flags.BoolVar(&f.runs, "runs", false, "one line for each run")
	flags.BoolVar(&f.failed, "failed", false, "the objects that failed in the run of --run")
	return lenient(c)
}

func (a *app) showLog(ctx context.Context, f *logFlags) (err error) {
	if f.Last < 0 {
		return usagef("--last %d: give a number of lines", f.Last)
	}
	if f.follow && f.runs {
		return usagef("--follow and --runs exclude each other: choose one")
	}
	if f.failed && (f.Run == "" || f.runs || f.follow) {
		return usagef("--failed needs --run, and neither --runs nor --follow")
	}
	if f.since != "" {
		if f.Since, err = since(f.since, time.Now()); err != nil {
			return err
		}
	}
	dir, err := a.serviceDir()
	if err != nil {
		return err
	}
	if f.failed {
		return a.showFailed(dir, f.Run)
	}
	if f.runs {
		var all []event.Run
		for run, err := range record.Runs(dir, f.Filter) {
			if err != nil {
				return err
			}
			all = append(all, run)
		}
		return a.print.Print(output.Runs(all))
	}
	lines := record.Read(dir, f.Filter)
	if f.follow {
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		lines = record.Follow(ctx, dir, f.Filter, ticker.C)
	}
	none := true
	for line, err := range lines {
		none = false
		if err != nil {
			return err
		}
		if err := a.print.Print(output.LogLine(&line)); err != nil {
			return err
		}
	}
	if none && !f.follow {
		a.print.Note("the log has no such lines; 'tidemark snapshots' lists backups, also those made by hand")
	}
	return nil
}

// showFailed prints the objects that failed in a run.
func (a *app) showFailed(dir, run string) error {
	known := false
	for _, err := range record.Runs(dir, record.Filter{Run: run}) {
		if err != nil {
			return err
		}
		known = true
	}
	for one, err := range record.FailedObjects(dir, run) {
		if err != nil {
			return err
		}
		known = true
		if err := a.print.Print(output.FailedObject(&one)); err != nil {
			return err
		}
	}
	if !known {
		return fmt.Errorf("no run %q is recorded: 'tidemark log --runs --json' shows the IDs", run)
	}
	return nil
}

// since parses a duration before now, or a time.
func since(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, usagef("--since %s: give a positive duration", text)
		}
		return now.Add(-d), nil
	}
	at, err := parseTime(text)
	if err != nil {
		return time.Time{}, usagef("--since: %v; or a duration such as 2h", err)
	}
	return at, nil
}

// serviceDir returns the folder in which the service of this user keeps its state.
func (a *app) serviceDir() (string, error) {
	if dir, _ := a.Env("STATE_DIRECTORY"); filepath.IsAbs(dir) { // by systemd; a list
		first, _, _ := strings.Cut(dir, ":")
		return first, nil
	}
	if dir, _ := a.Env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tidemark"), nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/tidemark", nil
	}
	home, _ := a.Env("HOME")
	switch {
	case !filepath.IsAbs(home):
		return "", errors.New("HOME is not set, so the state folder is not known: set HOME or XDG_STATE_HOME")
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "tidemark"), nil
	}
	return filepath.Join(home, ".local", "state", "tidemark"), nil
}
