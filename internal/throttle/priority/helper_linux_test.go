package priority

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// role is set for the test binary when a test starts it as one of the processes that it needs.
const role = "TIDEMARK_PRIORITY_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func() int{"apply": playApply, "idle": playIdle, "run": playRun, "trap": playTrap,
		"shell": playShell, "compute": playCompute,
		"reach": playReach, "leave": playLeave}
	if play := roles[os.Getenv(role)]; play != nil {
		os.Exit(play())
	}
	if err := becomePlain(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// becomePlain gives root's tests ordinary priority, which they pass on, whatever they were started with.
func becomePlain() error {
	threads, err := look(os.Getpid())
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	for tid := range threads {
		if err := errors.Join(setSched(tid, unix.SCHED_NORMAL), setIO(tid, ioNone),
			unix.Setpriority(unix.PRIO_PROCESS, tid, 0)); err != nil {
			return fmt.Errorf("give thread %d ordinary priority: %w", tid, err)
		}
	}
	return nil
}

// actor prepares the test binary in a role.
func actor(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), role+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// asNobody makes cmd run without any privilege.
func asNobody(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	program, err := os.ReadFile(cmd.Path)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/tmp", "priority")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	cmd.Path = filepath.Join(dir, "test")
	cmd.Dir = "/"
	require.NoError(t, os.WriteFile(cmd.Path, program, 0o755))
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
}

// threadState is the kernel's state of one thread.
type threadState struct{ Nice, Sched, IO int }

// look reads /proc/pid/task/*/stat and asks for the I/O priorities, independently of what is tested.
func look(pid int) (map[int]threadState, error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return nil, err
	}
	all := map[int]threadState{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the third one on
		tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		nice, _ := strconv.Atoi(fields[19-3])
		sched, _ := strconv.Atoi(fields[41-3])
		io, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(tid), 0)
		if errno == unix.ESRCH {
			continue
		}
		if errno != 0 {
			return nil, errno
		}
		all[tid] = threadState{nice, sched, int(io)}
	}
	return all, nil
}

// selfReport is an actor's report of itself at one moment.
type selfReport struct {
	Applied Applied
	Threads map[int]threadState
	Group   string
}

// playApply applies the policies of its arguments one after the other while threads come and go, and reports each.
func playApply() int {
	p, err := This(false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	crowd()
	out := json.NewEncoder(os.Stdout)
	for _, word := range os.Args[1:] {
		policy, err := iopolicy.ParsePolicy(word)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		stop := churn()
		applied, err := p.Apply(policy)
		stop()
		threads, lookErr := look(os.Getpid())
		if err != nil || lookErr != nil {
			fmt.Fprintln(os.Stderr, err, lookErr)
			return 1
		}
		group, _ := os.ReadFile("/proc/self/autogroup")
		if err := out.Encode(selfReport{applied, threads, strings.TrimSpace(string(group))}); err != nil {
			return 1
		}
	}
	return 0
}

// crowded is how many threads an actor has at least, however few processors there are.
const crowded = 8

// crowd makes threads that stay.
func crowd() {
	var begun sync.WaitGroup
	for range crowded {
		begun.Add(1)
		go func() {
			runtime.LockOSThread()
			begun.Done()
			select {}
		}()
	}
	begun.Wait()
}

// churn makes threads and ends them again until it is stopped. A few of each worker stay, and no more: on a slow
// machine there would be ever more to look at, and the runtime ends a program of 10 000.
func churn() (stop func()) {
	var workers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		workers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					runtime.LockOSThread() // its thread ends with it
					if i%50 == 0 && i < 500 {
						go func() { runtime.LockOSThread(); select {} }() // and this one never does
					}
				}()
				<-ended
			}
		})
	}
	return func() { close(done); workers.Wait() }
}

// playIdle has some threads and waits until its input ends.
func playIdle() int {
	for range 5 {
		started := make(chan struct{})
		go func() { runtime.LockOSThread(); close(started); select {} }()
		<-started
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// playReach lowers a process that is named by the environment, and reports the error.
func playReach() int {
	pid, _ := strconv.Atoi(os.Getenv("TIDEMARK_PRIORITY_PID"))
	_, err := ApplyTo(pid, iopolicy.Throttle)
	fmt.Println(err)
	return 0
}

// playLeave takes the scheduling that its argument names, and reports the error of going back.
func playLeave() int {
	runtime.LockOSThread()
	sched, _ := strconv.Atoi(os.Args[1])
	if err := setSched(0, sched); err != nil {
		fmt.Println("take:", err)
		return 0
	}
	fmt.Println(setSched(0, unix.SCHED_NORMAL))
	return 0
}

// playRun is "tidemark run": the first argument is the policy, the rest the program.
func playRun() int {
	policy, err := iopolicy.ParsePolicy(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	os.Setenv(role, os.Getenv("TIDEMARK_PRIORITY_CHILD"))
	exit, err := Run(context.Background(), policy, Command{Argv: os.Args[2:], Started: func(pid int, a Applied) error {
		return json.NewEncoder(os.Stderr).Encode(map[string]any{"pid": pid, "now": a.Now})
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return exit
}

// playTrap says which signals it gets. It ends at SIGTERM with 7, and stops itself at SIGTSTP once it has said so.
func playTrap() int {
	all := make(chan os.Signal, 16)
	signal.Notify(all, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP,
		unix.SIGCONT, unix.SIGWINCH)
	fmt.Println("ready")
	for s := range all {
		fmt.Println(unix.SignalName(s.(unix.Signal)))
		switch s {
		case unix.SIGTERM:
			return 7
		case unix.SIGTSTP:
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
	}
	return 0
}

// playShell is a shell with job control that leads a session on a terminal, its standard input: it runs its arguments
// in front, says when they stop, and continues them.
func playShell() int {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Env = append(os.Environ(), role+"=run", "TIDEMARK_PRIORITY_CHILD=trap")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		var status unix.WaitStatus
		if _, err := unix.Wait4(cmd.Process.Pid, &status, unix.WUNTRACED, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if !status.Stopped() {
			fmt.Println("exit", status.ExitStatus())
			return 0
		}
		fmt.Println("stopped")
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGCONT)
	}
}

// running is an actor that has been started.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.Closer
}

// launch starts cmd and reads its standard output line by line.
func launch(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	r := &running{t: t, cmd: cmd, lines: bufio.NewScanner(out)}
	if cmd.Stdin == nil {
		r.stdin, err = cmd.StdinPipe()
		require.NoError(t, err)
	}
	require.NoError(t, cmd.Start())
	return r
}

// expect reads one line and compares it.
func (r *running) expect(line string) {
	r.t.Helper()
	require.True(r.t, r.lines.Scan(), "the output ends before %q: %v", line, r.lines.Err())
	require.Equal(r.t, line, r.lines.Text())
}

// expectPast reads lines up to the first that is not skip, and compares that.
func (r *running) expectPast(skip, line string) {
	r.t.Helper()
	for r.lines.Scan() {
		if r.lines.Text() != skip {
			break
		}
	}
	require.Equal(r.t, line, r.lines.Text())
}

// signal sends a signal to the actor alone.
func (r *running) signal(s unix.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(s))
}

// end waits for the actor and returns its exit code.
func (r *running) end() int {
	r.t.Helper()
	_ = r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}
