package priority

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Exit codes of a program that was not started, as shells have them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number: it was ended by one
)

// Command is a program to be run.
type Command struct {
	Argv  []string    // the program, looked up in PATH unless it has a slash, and its arguments
	Files [3]*os.File // its standard input, output and error; nil: those of this process
	// Started is called once the program runs, with its process number. Its error ends the program.
	Started func(pid int, a Applied) error
}

// Run runs a program under the kernel-side part of a policy, which it and its children have from the start, waits for
// it, and returns its exit code: 128 and the signal's number if a signal ended it; 127, with ErrNotFound, or 126, with
// ErrNotExecutable, if it could not be started.
//
// The program stays in this process group, so that a terminal treats both as one job. Until Run returns, it forwards
// signals sent to this process alone; a terminal sends its signals to both. When the program is stopped, this process
// stops too, so that the shell sees it. So no signal may end ctx. If ctx ends, the program gets SIGTERM, and SIGKILL
// ten seconds later.
func Run(ctx context.Context, policy iopolicy.Policy, c Command) (exit int, err error) {
	path, code, err := lookUp(c.Argv)
	if err != nil {
		return code, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	var child int
	applied, err := startUnder(policy, func() (err error) {
		child, err = start(path, c)
		return err
	})
	if err != nil {
		return exitCode(err), fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	r := started{pid: child, signals: signals, patience: 10 * time.Second}
	if c.Started != nil {
		if err := c.Started(child, applied); err != nil {
			canceled, cancel := context.WithCancelCause(ctx)
			cancel(err)
			_, _ = r.wait(canceled)
			return 1, fmt.Errorf("run %s: %w", c.Argv[0], err)
		}
	}
	return r.wait(ctx)
}

// lookUp finds the file of a program, or returns the exit code.
func lookUp(argv []string) (path string, exit int, err error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", exitNotFound, fmt.Errorf("run: %w: name a program behind \"--\"", ErrNotFound)
	}
	path, err = exec.LookPath(argv[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil // PATH contains the working directory, and shells would run it too
	}
	switch {
	case err == nil:
		return path, 0, nil
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		return "", exitNotFound, fmt.Errorf("run %s: %w", argv[0], ErrNotFound)
	default:
		return "", exitNotExecutable, fmt.Errorf("run %s: %w: %w", argv[0], ErrNotExecutable, err)
	}
}

// start starts the program. The caller must wait for its process.
func start(path string, c Command) (pid int, err error) {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, f := range c.Files {
		if f != nil {
			files[i] = f
		}
	}
	process, err := os.StartProcess(path, c.Argv, &os.ProcAttr{Files: files})
	if err != nil {
		if errors.Is(err, unix.ENOEXEC) {
			err = fmt.Errorf("neither a program for this machine nor a script that begins with #!: %w", err)
		}
		if exitCode(err) == exitNotFound { // a script without its interpreter, or removed after lookUp
			return 0, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return 0, fmt.Errorf("%w: %w", ErrNotExecutable, err)
	}
	pid = process.Pid
	return pid, process.Release() // started waits itself, to see stops as well
}

func exitCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// forwarded returns the signals that are forwarded. One that was ignored when this process began (nohup, a background
// job of a script) is ignored by the program as well, and left alone.
func forwarded() []os.Signal {
	var out []os.Signal
	for _, s := range []os.Signal{
		unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGTSTP,
		unix.SIGCONT,
	} {
		if !signal.Ignored(s) {
			out = append(out, s)
		}
	}
	return out
}

// started is a program that is running.
type started struct {
	pid      int
	signals  <-chan os.Signal
	patience time.Duration // between asking it to end and killing it
}

// change is a change of state of a process.
type change struct {
	status unix.WaitStatus
	err    error
}

// wait returns when the program has ended.
func (r *started) wait(ctx context.Context) (exit int, err error) {
	changes := make(chan change)
	go func() {
		for {
			c := await(r.pid)
			changes <- c
			if c.err != nil || !c.status.Stopped() {
				return
			}
		}
	}()
	ended, asked, killer := ctx.Done(), false, (<-chan time.Time)(nil)
	for {
		select {
		case c := <-changes:
			if c.err == nil && c.status.Stopped() {
				suspend()
				continue
			}
			return c.exit(ctx, asked)
		case s := <-r.signals:
			r.forward(s.(unix.Signal))
		case <-ended:
			ended, asked = nil, true
			_ = unix.Kill(r.pid, unix.SIGTERM)
			_ = unix.Kill(r.pid, unix.SIGCONT) // a stopped process handles no signal
			killer = time.After(r.patience)
		case <-killer:
			_ = unix.Kill(r.pid, unix.SIGKILL)
		}
	}
}

// await waits until the process ends or stops.
func await(pid int) change {
	for {
		var c change
		_, c.err = unix.Wait4(pid, &c.status, unix.WUNTRACED, nil)
		if !errors.Is(c.err, unix.EINTR) {
			return c
		}
	}
}

// exit translates the end of a process.
func (c *change) exit(ctx context.Context, asked bool) (int, error) {
	code := 0
	switch {
	case c.err != nil:
		return 1, fmt.Errorf("wait for program: %w", c.err)
	case c.status.Signaled():
		code = exitSignal + int(c.status.Signal())
	default:
		code = c.status.ExitStatus()
	}
	if asked {
		return code, fmt.Errorf("program was asked to end: %w", context.Cause(ctx))
	}
	return code, nil
}

// forward forwards a signal. A terminal sends those of keyboard and window to its whole foreground group, so the
// program already has them while this process is in it, and a second SIGINT would have another meaning to many
// programs. Such a signal sent to this process alone is lost in that time; SIGTERM, the default of kill, always
// arrives.
func (r *started) forward(s unix.Signal) {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGWINCH:
		if foreground() {
			return
		}
	}
	_ = unix.Kill(r.pid, s) // it may just have ended, which await reports
}

// suspend stops this process because the program has stopped: the shell, which knows only us, then takes over the
// terminal, and continues both. Without a terminal that has this process in its foreground, nothing would continue it,
// so it waits on.
func suspend() {
	if foreground() {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
}

// foreground reports whether this process is in the foreground group of its controlling terminal.
func foreground() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // no controlling terminal
	}
	defer unix.Close(fd)
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
