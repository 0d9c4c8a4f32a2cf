package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// throttled returns a job of this process, at throttle.
func throttled() *control.Job {
	return control.NewJob(iopolicy.Throttle, control.Means{Note: func(string) {},
		Show:  func() event.Job { return event.Job{Job: "backup"} },
		Apply: func(iopolicy.Policy) ([]string, error) { return nil, nil }})
}

// A step is accelerated although its socket appears later than the request, and no longer than was asked for.
func TestAStepIsAcceleratedWhenItHasASocket(t *testing.T) {
	testkit.Slow(t)
	base, err := os.MkdirTemp("", "daemon") // paths of sockets are short
	require.NoError(t, err)
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "run")
	done := make(chan struct{})
	hour, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	go func() { defer close(done); hasten(hour, dir, os.Getpid()) }()
	j := throttled()
	stop, err := control.Serve(t.Context(), dir, j)
	require.NoError(t, err)
	defer stop()
	<-done
	require.Equal(t, iopolicy.Important, j.Policy())
	require.WithinDuration(t, time.Now().Add(time.Hour), j.Status().PolicyUntil, time.Minute)

	// It waits neither for a process that has ended nor after the time was ended.
	short := exec.Command("true")
	require.NoError(t, short.Run())
	hasten(hour, dir, short.Process.Pid)
	ctx, cancel := context.WithCancel(hour)
	cancel()
	hasten(ctx, dir, os.Getppid())

	// No step is accelerated after the time.
	j = throttled()
	stop()
	stop, err = control.Serve(t.Context(), dir, j)
	require.NoError(t, err)
	defer stop()
	over, end := context.WithTimeout(t.Context(), 0)
	defer end()
	hasten(over, dir, os.Getpid())
	require.Equal(t, iopolicy.Throttle, j.Policy())
}

// thisProcess is a step that is this test.
type thisProcess struct{ Process }

func (thisProcess) PID() int { return os.Getpid() }

// The service accelerates steps from the order until its end.
func TestStepsAreAcceleratedOnOrder(t *testing.T) {
	base, err := os.MkdirTemp("", "daemon") // paths of sockets are short
	require.NoError(t, err)
	defer os.RemoveAll(base)
	dir := filepath.Join(base, "run")
	j := throttled()
	stop, err := control.Serve(t.Context(), dir, j)
	require.NoError(t, err)
	defer stop()
	s := &service{Config: &Config{RuntimeDir: dir}}
	important := func() bool { return j.Policy() == iopolicy.Important }
	s.hasten(thisProcess{}) // without an order: nothing
	s.accelerate(time.Now().Add(time.Hour))
	s.hasten(thisProcess{})
	require.Eventually(t, important, 30*time.Second, 10*time.Millisecond)
	ctx := s.faster
	s.accelerate(time.Time{})
	require.Error(t, ctx.Err(), "what still waits for a socket ends")
	s.jobs = []*live{{run: &run{process: thisProcess{}}}}
	_, err = j.SetPolicy(iopolicy.Utility, 0)
	require.NoError(t, err)
	s.accelerate(time.Now().Add(time.Hour)) // a step that runs, which the order may have missed
	require.Eventually(t, important, 30*time.Second, 10*time.Millisecond)
	s.accelerate(time.Time{})
}
