package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// fakeService is a service whose runs end at the second request for its state after their start.
type fakeService struct {
	mu      sync.Mutex
	orders  []control.Action
	outcome string
	left    int
	job     event.DaemonJob
}

func (f *fakeService) do(o control.Command) (event.Daemon, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch o.Action {
	case control.StartJob:
		f.job.State, f.left = "running", 2
	case control.StopJob:
		f.job.State = "idle"
	case control.ShowStatus:
		if f.left--; f.job.State == "running" && f.left == 0 {
			f.job.State, f.job.LastRun = "idle", &event.Run{ID: "2", Outcome: f.outcome, Message: "the disk is full"}
		}
	default:
		return event.Daemon{}, errors.New("not expected")
	}
	if o.Action != control.ShowStatus {
		f.orders = append(f.orders, o.Action)
	}
	return event.Daemon{Jobs: []event.DaemonJob{f.job}}, nil
}

// Where the service runs, it is the service that starts and stops backups.
func TestServiceStartsAndStopsBackups(t *testing.T) {
	testkit.Slow(t)
	dir, err := os.MkdirTemp("", "tm") // a path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		env := func(name string) (string, bool) {
			value, ok := map[string]string{"XDG_RUNTIME_DIR": dir, "HOME": dir}[name]
			return value, ok
		}
		code = Run(t.Context(), Process{Args: append([]string{"tm"}, args...), Out: &o, Err: &e, Env: env})
		return code, o.String(), e.String()
	}
	serve := func(f *fakeService) {
		f.job.Name = "home"
		stop, err := control.ServeDaemon(context.Background(), filepath.Join(dir, "tidemark"), f.do)
		require.NoError(t, err)
		t.Cleanup(stop)
	}
	next := time.Date(2026, 11, 23, 8, 15, 0, 0, time.UTC)
	last := &event.Run{ID: "1", Outcome: "failed"}
	f := &fakeService{outcome: "done", job: event.DaemonJob{State: "idle", Next: &next, LastRun: last}}
	serve(f)
	code, out, errs := run("status")
	require.Zero(t, code, errs)
	require.Contains(t, out, `NextBackup = "2026-11-23 08:15:00 +0000";`)
	code, _, errs = run("startbackup")
	require.Zero(t, code, errs)
	code, _, errs = run("stopbackup")
	require.Zero(t, code, errs)
	require.Equal(t, []control.Action{control.StartJob, control.StopJob}, f.orders)
	code, _, errs = run("startbackup", "--block")
	require.Zero(t, code, errs)
	f.mu.Lock()
	f.outcome, f.job.LastRun = "failed", nil
	f.mu.Unlock()
	code, _, errs = run("startbackup", "--block")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "home: the disk is full")
	code, _, errs = run("stopbackup")
	require.Equal(t, exitFailed, code, "nothing runs")
	require.Contains(t, errs, "no backup of this user is running")
}
