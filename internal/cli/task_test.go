package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// appWith is a run with some options. Its notes are collected.
func appWith(t *testing.T, env map[string]string) (*app, *bytes.Buffer) {
	t.Helper()
	base, err := os.MkdirTemp("", "cli") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	var said bytes.Buffer
	a := &app{Process: Process{Out: &said, Err: &said, Env: func(name string) (string, bool) {
		if name == "HOME" || name == "XDG_RUNTIME_DIR" {
			return base, true
		}
		value, ok := env[name]
		return value, ok
	}}}
	a.print = output.NewText(&said, &said, output.TextOptions{})
	a.spec, _, err = options.Resolve(nil, a.Env, os.ReadFile)
	require.NoError(t, err)
	a.task = newTask(a.spec.IO())
	return a, &said
}

func TestWhatAutoStandsFor(t *testing.T) {
	a, _ := appWith(t, nil)
	require.Equal(t, iopolicy.Important, a.task.client.Policy())
	for use, want := range map[options.Use]iopolicy.Policy{
		options.FirstBackup: iopolicy.Utility, options.LaterBackup: iopolicy.Throttle, options.Attended: iopolicy.Important,
	} {
		require.Equal(t, want, a.spec.IO().Choose(use))
	}
	a, _ = appWith(t, map[string]string{"TIDEMARK_POLICY": "standard"})
	require.Equal(t, iopolicy.Standard, a.task.client.Policy())
}

func TestAJobIsShownWithItsCounters(t *testing.T) {
	a, said := appWith(t, map[string]string{"TIDEMARK_POLICY": "standard"})
	l := report.New(time.Now)
	l.Objects.Inspected.Add(7)
	stop := a.publish(t.Context(), "backup", []string{"/src"}, l)
	dir, err := a.runtimeDir()
	require.NoError(t, err)
	jobs, err := control.Jobs(dir)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	s, err := jobs[0].Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "backup", s.Job)
	require.Equal(t, []string{"/src"}, s.Sources)
	require.True(t, strings.HasSuffix(s.Repository, "repository"))
	require.Equal(t, "standard", s.Policy)
	require.EqualValues(t, 7, s.Status.FilesDone)
	require.Equal(t, "standard", s.Status.Policies[0].Policy)

	change, err := jobs[0].SetPolicy(t.Context(), iopolicy.Important, 0)
	require.NoError(t, err)
	require.Equal(t, [2]string{"standard", "important"}, [2]string{change.Was, change.Policy})
	require.Equal(t, iopolicy.Important, a.task.client.Policy())
	totals := l.Snapshot()
	require.Equal(t, "important", totals.Policies[len(totals.Policies)-1].Policy, "the report shows it")
	a.applyPolicy(options.LaterBackup)
	require.Equal(t, iopolicy.Important, a.task.client.Policy(), "an explicit choice stays")
	stop()
	require.Empty(t, said.String())
	left, err := filepath.Glob(filepath.Join(dir, "job-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	a.leave()
}

func TestAJobThatCannotBeSeenIsDone(t *testing.T) {
	a, said := appWith(t, nil)
	dir, err := a.runtimeDir()
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o755))
	a.publish(t.Context(), "check", nil, report.NewJob(report.Check, time.Now))()
	require.Contains(t, said.String(), "'tidemark tier' cannot see this job: ")
	require.Contains(t, said.String(), "chmod 700 "+filepath.Clean(dir))
}

func TestAskingAllJobs(t *testing.T) {
	jobs := []control.Running{{PID: 3}, {PID: 1}, {PID: 2}, {PID: 4}}
	all, err := each(jobs, func(j control.Running) (int, error) {
		switch j.PID {
		case 1:
			return 0, control.ErrGone
		case 2:
			return 0, errors.Join(control.ErrAnswer, context.DeadlineExceeded)
		}
		return j.PID, nil
	})
	require.Equal(t, []int{3, 4}, all, "in their order, without those that have ended")
	require.ErrorIs(t, err, control.ErrAnswer)
	_, err = each(jobs[1:2], func(control.Running) (int, error) { return 0, control.ErrGone })
	require.NoError(t, err)
}

func TestTheProgramsExitCodeIsOurs(t *testing.T) {
	silent := &programError{code: 7}
	require.Equal(t, 7, exitCode(errors.Join(errInterrupted, silent)), "a signal was the program's to obey")
	require.Empty(t, message(silent))
	require.Equal(t, "no such", message(&programError{127, errors.New("no such")}))
}

// policies returns the policy of a job as its socket shows it, and whether it holds for a time.
func policies(t *task) (string, bool) {
	s := t.Status()
	return s.Policy, s.PolicyUntil != nil
}

func TestAPolicyReturnsToWhatHeldBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := appWith(t, map[string]string{"TIDEMARK_POLICY": "throttle"})
		job := a.task
		notes := make(chan string, 10)
		job.note = func(text string) { notes <- text }
		check := func(want string, forATime bool) {
			t.Helper()
			synctest.Wait()
			policy, timed := policies(job)
			require.Equal(t, want, policy)
			require.Equal(t, forATime, timed)
			require.Equal(t, want, job.client.Policy().String(), "the I/O follows")
		}
		set := func(p iopolicy.Policy, d time.Duration) {
			_, err := job.SetPolicy(p, d)
			require.NoError(t, err)
		}
		set(iopolicy.Important, 30*time.Minute)
		check("important", true)
		time.Sleep(30*time.Minute - time.Second)
		check("important", true)
		time.Sleep(2 * time.Second)
		check("throttle", false)
		require.Equal(t, "the policy is throttle again, it was important for a time", <-notes)

		// A second time replaces the first, and the policy of before both returns.
		set(iopolicy.Important, time.Hour)
		time.Sleep(30 * time.Minute)
		set(iopolicy.Standard, time.Hour)
		time.Sleep(45 * time.Minute)
		check("standard", true)
		time.Sleep(16 * time.Minute)
		check("throttle", false)

		// What auto chooses meanwhile waits for the end.
		set(iopolicy.Important, time.Hour)
		job.mu.Lock()
		job.holdLasting(iopolicy.Utility)
		job.mu.Unlock()
		check("important", true)
		time.Sleep(61 * time.Minute)
		check("utility", false)

		// A change without a time ends it, and so does the end of the job.
		set(iopolicy.Important, time.Hour)
		set(iopolicy.Standard, 0)
		check("standard", false)
		time.Sleep(2 * time.Hour)
		check("standard", false)
		set(iopolicy.Important, time.Hour)
		job.yieldToAll()
		check("throttle", false)
		set(iopolicy.Important, time.Hour)
		job.endTerm()
		time.Sleep(2 * time.Hour)
		check("important", false)

		// At once, on request.
		set(iopolicy.Utility, 0)
		set(iopolicy.Important, time.Hour)
		_, err := job.ReturnPolicy()
		require.NoError(t, err)
		check("utility", false)
		_, err = job.ReturnPolicy()
		require.NoError(t, err)
		check("utility", false)
	})
}

func TestCommandsAreShownWithoutSecrets(t *testing.T) {
	require.Equal(t, []string{"tidemark", "backup", "--password-command", "***", "--smb-password-command=***",
		"-passwordcommand=***", "--password-file", "/f", "--repo", "smb://***@nas/x", "--",
		"mysqldump", "--password=***", "--all"},
		shownCommand([]string{"tidemark", "backup", "--password-command", "echo S3", "--smb-password-command=echo S3",
			"-passwordcommand=echo S3", "--password-file", "/f", "--repo", "smb://me:S3@nas/x", "--", "mysqldump",
			"--password=S3", "--all"}))
}

// A person who watches a job sees the speed of the last seconds, and one who asks once in a while that since the start.
func TestSpeedsOfAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := appWith(t, nil)
		a.task.ledger = report.New(time.Now)
		read := func(n uint64) { a.task.ledger.Bytes.Read.Add(n); a.task.ledger.Bytes.Inspected.Add(n) }
		time.Sleep(100 * time.Second)
		read(1000)
		require.InDelta(t, 10, a.task.Status().Status.BytesPerSecond, 0.01)
		for range 10 {
			time.Sleep(time.Second)
			read(50)
			a.task.Status()
		}
		require.InDelta(t, 50, a.task.Status().Status.BytesPerSecond, 0.01)
		time.Sleep(390 * time.Second)
		require.InDelta(t, 3, a.task.Status().Status.BytesPerSecond, 0.01)
	})
}
