package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestMain lets the test be a step, or a service that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv("TIDEMARK_TEST_CHILD") {
	case "step":
		os.Exit(beStep(os.Args[1]))
	case "service":
		beService()
	}
	os.Exit(m.Run())
}

// beStep is a step that behaves in one way, and returns its exit code.
func beStep(way string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Println(`{"message_type":"status","phase":"scanning","percent_done":0.5}`)
	switch way {
	case "good":
		fmt.Println(`{"message_type":"forget","keep":false}` + "\n" + `{"message_type":"forget","keep":true}`)
		fmt.Print(`{"message_type":"summary","snapshot_id":"abc"}`)
	case "bad":
		fmt.Fprintln(os.Stderr, `{"message_type":"exit_error","code":12,"message":"wrong key"}`)
		return 12
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: at the disco")
		return 2
	case "loud":
		for range 100 {
			fmt.Println(strings.Repeat("x", longestLine/10))
		}
		fmt.Print(strings.Repeat("y", 3*longestLine), "\n")
		fmt.Println(`{"message_type":"summary","snapshot_id":"abc"}`)
	case "environment":
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
			if os.Getenv(name) != "" {
				return 9
			}
		}
	case "patient":
		<-signals
		return 130
	case "stubborn": // as its child, which the group ends with it
		child := exec.Command("sleep", "600")
		child.Stdout = os.Stdout
		if child.Start() != nil {
			return 8
		}
		select {}
	}
	return 0
}

// beService is a service with a step that waits, and prints its process ID.
func beService() {
	p, err := startChild(Step{Args: []string{"patient"}}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startChild(s Step, progress func(*event.Status)) (Process, error) {
	environ := append(os.Environ(), "TIDEMARK_TEST_CHILD=step", "NOTIFY_SOCKET=/x", "WATCHDOG_USEC=1")
	return StartChild(os.Args[0], environ, s, progress)
}

func start(t *testing.T, way string, grace time.Duration) (p Process, status chan *event.Status) {
	t.Helper()
	status = make(chan *event.Status, 1)
	step := Step{Name: "backup", Args: []string{way}, Grace: grace}
	p, err := startChild(step, func(s *event.Status) { status <- s })
	require.NoError(t, err)
	return p, status
}

func TestStepsAreChildProcesses(t *testing.T) {
	testkit.NoLeaks(t)
	summary := json.RawMessage(`{"message_type":"summary","snapshot_id":"abc"}`)
	for way, want := range map[string]Result{
		"good":        {Summary: summary, Removed: 1},
		"bad":         {ExitCode: 12, Message: "wrong key"},
		"crash":       {ExitCode: 2, Message: "panic: at the disco"},
		"loud":        {Summary: summary},
		"environment": {},
	} {
		p, status := start(t, way, time.Minute)
		require.Equal(t, "scanning", (<-status).Phase, way)
		require.Equal(t, want, p.Wait(), way)
		p.Stop() // it has ended
	}
	_, err := StartChild("/nosuch", nil, Step{Name: "backup"}, nil)
	require.ErrorContains(t, err, "start backup: ")
}

func TestStepsEndWhenTheyAreAskedTo(t *testing.T) {
	p, status := start(t, "patient", time.Hour)
	<-status
	p.Stop()
	p.Stop()
	require.Equal(t, Result{ExitCode: 130}, p.Wait())

	p, status = start(t, "stubborn", time.Millisecond)
	<-status
	p.Stop()
	require.Equal(t, Result{ExitCode: exitSignal + int(syscall.SIGKILL)}, p.Wait(), "killed with its children")
}

// A step ends when the service is killed.
func TestStepsDoNotOutliveTheService(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs the signal of Linux for dead parents")
	}
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), "TIDEMARK_TEST_CHILD=service")
	in, err := victim.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	var pid int
	_, err = fmt.Fscanln(bufio.NewReader(out), &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, victim.Process.Kill())
	require.Error(t, victim.Wait(), "killed")
	require.Eventually(t, func() bool { return !lives(pid) }, 30*time.Second, 10*time.Millisecond)
}

// lives reports whether a process runs; one that has ended and is not waited for does not.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A service with real time, real processes and a socket.
func TestServiceRunsRealSteps(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	w := newWorld(t, makeJob(t, "home", every{time.Second, 0}))
	w.config.Start = func(s Step, progress func(*event.Status)) (Process, error) {
		return startChild(Step{Name: s.Name, Args: []string{"good"}, Grace: s.Grace}, progress)
	}
	w.config.Clock = SystemClock{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, w.config) }()
	var runs []string
	require.Eventually(t, func() bool {
		runs = append(runs, w.runs()...)
		return len(runs) > 1
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "home schedule done", runs[0])
	cancel()
	require.NoError(t, <-ended)
}
