package priority

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func itoa(n int) string { return strconv.Itoa(n) }

// into runs a command with its output in a file, and returns what was written.
func into(t *testing.T, p iopolicy.Policy, c Command) (output string, exit int, err error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	c.Files[1] = out
	exit, err = Run(t.Context(), p, c)
	text, readErr := os.ReadFile(out.Name())
	require.NoError(t, readErr)
	return string(text), exit, err
}

// statLine returns nice value and scheduling from line i of some lines of /proc/PID/stat.
func statLine(t *testing.T, output string, i int) string {
	t.Helper()
	line := strings.Split(strings.TrimSpace(output), "\n")[i]
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // from the third one on
	return fields[19-3] + " " + fields[41-3]
}

func TestRunGivesExitCodesAsShellsDo(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	for _, c := range []struct {
		argv []string
		want int
		err  error
	}{
		{[]string{"true"}, 0, nil},
		{[]string{"/bin/sh", "-c", "exit 3"}, 3, nil},
		{[]string{"sh", "-c", "exit 255"}, 255, nil},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143, nil},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, nil},
		{[]string{"no-such-program-at-all"}, 127, ErrNotFound},
		{[]string{dir + "/none"}, 127, ErrNotFound},
		{[]string{}, 127, ErrNotFound},
		{[]string{""}, 127, ErrNotFound},
		{[]string{dir}, 126, ErrNotExecutable},
		{[]string{write("data", "x", 0o644)}, 126, ErrNotExecutable},
		{[]string{write("headless", "echo x\n", 0o755)}, 126, ErrNotExecutable},
		{[]string{write("orphan", "#!/no/such/interpreter\n", 0o755)}, 127, ErrNotFound},
	} {
		exit, err := Run(t.Context(), iopolicy.Utility, Command{Argv: c.argv})
		require.Equal(t, c.want, exit, "%q: %v", c.argv, err)
		require.ErrorIs(t, err, c.err, "%q", c.argv)
	}
}

func TestRunLowersTheProgramAndItsChildrenFromTheStart(t *testing.T) {
	fromPlain(t)
	const script = `read line; cat /proc/self/stat; sh -c 'cat /proc/self/stat'`
	before, err := look(os.Getpid())
	require.NoError(t, err)
	mine := before[os.Getpid()]
	for policy, want := range map[iopolicy.Policy]threadState{
		iopolicy.Important: mine, iopolicy.Standard: mine, iopolicy.Passive: mine,
		iopolicy.Utility: utility, iopolicy.Throttle: throttle,
	} {
		var ioClass int
		var now string
		in, hold, err := os.Pipe()
		require.NoError(t, err)
		c := Command{Argv: []string{"sh", "-c", script}, Files: [3]*os.File{in}}
		c.Started = func(pid int, a Applied) error {
			defer hold.Close() // it lives until here
			now = a.Now
			io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(pid), 0)
			ioClass = int(io)
			if errno != 0 {
				return errno
			}
			return nil
		}
		output, exit, err := into(t, policy, c)
		in.Close()
		require.NoError(t, err)
		require.Zero(t, exit)
		require.Equal(t, want.IO, ioClass)
		var a, b threadState
		for i, st := range []*threadState{&a, &b} {
			_, err := fmt.Sscanf(statLine(t, output, i), "%d %d", &st.Nice, &st.Sched)
			require.NoError(t, err)
			require.Equal(t, want.Nice, st.Nice, "%s", policy)
			require.Equal(t, want.Sched, st.Sched, "%s", policy)
		}
		if lowers(policy) {
			require.Contains(t, now, "batch scheduling")
		}
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the threads that were lowered end some time after Run
		after, err := look(os.Getpid())
		require.NoError(c, err)
		for tid, st := range after {
			assert.Equal(c, mine, st, "thread %d of this process", tid)
		}
	}, time.Minute, time.Millisecond)
}

func TestRunFromAnUnprivilegedUser(t *testing.T) {
	fromPlain(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become a user without rights")
	}
	cmd := actor(t, "run", "throttle", "cat", "/proc/self/stat")
	asNobody(t, cmd)
	out, err := cmd.Output()
	require.NoError(t, err)
	var got threadState
	_, err = fmt.Sscanf(statLine(t, string(out), 0), "%d %d", &got.Nice, &got.Sched)
	require.NoError(t, err)
	require.Equal(t, throttle.Nice, got.Nice)
	require.Equal(t, throttle.Sched, got.Sched)
}

func TestStartedCanRefuse(t *testing.T) {
	refusal := errors.New("no space in the register")
	var pid int
	exit, err := Run(t.Context(), iopolicy.Utility,
		Command{Argv: []string{"sleep", "1000"}, Started: func(child int, _ Applied) error {
			pid = child
			return refusal
		}})
	require.ErrorIs(t, err, refusal)
	require.Equal(t, 1, exit)
	require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "it has ended and was waited for")
}

func TestRunEndsTheProgramWithItsContext(t *testing.T) {
	reason := errors.New("the machine goes to sleep")
	ctx, cancel := context.WithCancelCause(t.Context())
	exit, err := Run(ctx, iopolicy.Utility, Command{Argv: []string{"sleep", "1000"}, Started: func(int, Applied) error {
		cancel(reason)
		return nil
	}})
	require.ErrorIs(t, err, reason)
	require.Equal(t, 143, exit)
}

func TestProgramThatDoesNotEndIsKilled(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap '' TERM; echo ready; while :; do sleep 1000 & wait; done`)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	r := launch(t, cmd)
	t.Cleanup(func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }) // the sleep
	r.expect("ready")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := started{pid: cmd.Process.Pid, patience: time.Millisecond}
	exit, err := j.wait(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 137, exit)
}

// wrapped starts an actor that runs another one, which traps signals, and returns it once that is ready.
func wrapped(t *testing.T) *running {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := actor(t, "run", "utility", self)
	cmd.Env = append(cmd.Env, "TIDEMARK_PRIORITY_CHILD=trap")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // no terminal, whatever the tests are run on
	r := launch(t, cmd)
	r.expect("ready")
	return r
}

func TestSignalsAreHandedOn(t *testing.T) {
	r := wrapped(t)
	for _, s := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGQUIT, unix.SIGUSR2, unix.SIGWINCH,
		unix.SIGCONT} {
		if signal.Ignored(s) {
			continue // and so by every child: the tests were started by nohup, say
		}
		r.signal(s)
		r.expect(unix.SignalName(s))
	}
	r.signal(unix.SIGTSTP) // stops the program; with no terminal, this side waits on
	r.expect("SIGTSTP")
	untilStopped(t, r.child())
	r.signal(unix.SIGCONT)
	r.expect("SIGCONT")
	r.signal(unix.SIGTERM)
	r.expect("SIGTERM")
	require.Equal(t, 7, r.end())
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	signal.Ignore(unix.SIGHUP)
	defer signal.Reset(unix.SIGHUP)
	output, exit, err := into(t, iopolicy.Utility,
		Command{Argv: []string{"sh", "-c", `kill -HUP $$; kill -HUP $PPID; echo alive`}})
	require.NoError(t, err)
	require.Zero(t, exit)
	require.Equal(t, "alive\n", output)
}

// TestJobControl puts a shell on a terminal of its own and presses keys: each arrives once, and a job that stops gives
// the terminal back.
func TestJobControl(t *testing.T) {
	keyboard, terminal := pty(t)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := actor(t, "shell", self, "utility", self)
	cmd.Stdin = terminal
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	r := launch(t, cmd)
	press := func(key byte) {
		t.Helper()
		_, err := keyboard.Write([]byte{key})
		require.NoError(t, err)
	}
	const ctrlC, ctrlZ, ctrlBackslash = 3, 26, 28
	r.expect("ready")
	for range 3 {
		press(ctrlC)
		r.expect("SIGINT")
		press(ctrlBackslash) // would come after a second SIGINT, if there were one
		r.expect("SIGQUIT")
	}
	press(ctrlZ)
	r.expect("SIGTSTP")
	r.expect("stopped")
	r.expect("SIGCONT")
	press(ctrlC)
	r.expectPast("SIGCONT", "SIGINT") // the wrapper hands on the SIGCONT that it got as well
	require.NoError(t, unix.Kill(r.child(), unix.SIGTERM))
	r.expectPast("SIGCONT", "SIGTERM")
	r.expect("exit 7")
	require.Zero(t, r.end())
}

// untilStopped waits until a process has been stopped: it says that it will be before it is.
func untilStopped(t *testing.T, pid int) {
	t.Helper()
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		if fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])); fields[0] == "T" {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// child returns the process number of the only child of an actor.
func (r *running) child() int {
	r.t.Helper()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.cmd.Process.Pid))
	require.NoError(r.t, err)
	for _, name := range children { // each thread has its own
		text, err := os.ReadFile(name)
		require.NoError(r.t, err)
		var child int
		if n, _ := fmt.Sscan(string(text), &child); n == 1 {
			return child
		}
	}
	require.Fail(r.t, "it has no child")
	return 0
}

// pty returns both ends of a new terminal.
func pty(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo-terminals: %v", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keyboard.Close(); terminal.Close() })
	return keyboard, terminal
}
