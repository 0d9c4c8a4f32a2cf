package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	spec, _, err := options.Resolve(nil, a.Env, os.ReadFile)
	require.NoError(t, err)
	a.use(spec)
	return a, &said
}

func TestWhatAutoStandsFor(t *testing.T) {
	a, _ := appWith(t, nil)
	require.Equal(t, iopolicy.Important, a.governor.IOPolicy())
	for use, want := range map[options.Use]iopolicy.Policy{
		options.FirstBackup: iopolicy.Utility, options.LaterBackup: iopolicy.Throttle, options.Attended: iopolicy.Important,
	} {
		require.Equal(t, want, a.spec.IO().Choose(use))
	}
	a, _ = appWith(t, map[string]string{"TIDEMARK_POLICY": "standard"})
	require.Equal(t, iopolicy.Standard, a.governor.IOPolicy())
}

func TestAJobIsShownWithItsCounters(t *testing.T) {
	a, said := appWith(t, map[string]string{"TIDEMARK_POLICY": "standard"})
	l, stop := a.begin(t.Context(), report.Backup, "/src")
	l.Objects.Inspected.Add(7)
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
	require.Equal(t, iopolicy.Important, a.governor.IOPolicy())
	totals := l.Snapshot()
	require.Equal(t, "important", totals.Policies[len(totals.Policies)-1].Policy, "the report shows it")
	a.applyPolicy(options.LaterBackup)
	require.Equal(t, iopolicy.Important, a.governor.IOPolicy(), "an explicit choice stays")
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
	_, end := a.begin(t.Context(), report.Check)
	end()
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
