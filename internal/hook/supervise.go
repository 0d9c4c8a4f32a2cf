package hook

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// SuperviseCommand is the first argument of this program as the supervisor of a command. The second is the line.
//
// A supervisor is a process of its own, so that a command does not outlive a run that is killed: it holds one end of a
// pipe, and ends the process group of the command when the other end is closed. A grace is written to it before. In the
// same way a guard, a shell, kills the group when the supervisor was killed too, as by 'killall -9 tidemark'.
const SuperviseCommand = "supervise-command"

// The descriptors of a supervisor beside the standard streams. Standard input is the pipe of its parent.
const (
	reportFD = 3 + iota // to which it writes how the command ended
	heldFD              // a file that is locked until the supervisor has ended
)

// Supervise runs a command line and returns an exit code for this program.
func Supervise(line string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd, release, err := guarded(line)
	if err != nil {
		fmt.Fprintf(os.Stderr, "start command: %v\n", err)
		return 1
	}
	defer release()
	gone := make(chan time.Duration, 1)
	go func() {
		text, _ := io.ReadAll(os.Stdin) // without a grace, the parent was killed
		grace, err := time.ParseDuration(string(text))
		if err != nil {
			grace = termGrace
		}
		gone <- grace
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended: //nolint:errcheck // its state says how
	case grace := <-gone:
		endGroup(cmd.Process.Pid, grace)
		<-ended //nolint:errcheck // it ended by a signal
	case <-signals:
		endGroup(cmd.Process.Pid, termGrace)
		<-ended //nolint:errcheck // it ended by a signal
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		_, _ = os.NewFile(reportFD, "report").WriteString(strconv.FormatUint(uint64(status), 10)) // the parent may be gone
	}
	return 0
}

// guarded starts a command line in a process group of its own, and the guard of the group. The command begins when the
// guard knows the group. release ends the guard, and lets what is left of the group go on.
func guarded(line string) (cmd *exec.Cmd, release func(), err error) {
	syscall.CloseOnExec(reportFD)
	guard := shell(`read -r group && { read -r _ || kill -s KILL -- "-$group"; }`)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	control, err := guard.StdinPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := guard.Start(); err != nil { // it inherits the lock
		return nil, nil, err
	}
	syscall.CloseOnExec(heldFD)
	release = func() {
		_, _ = fmt.Fprintln(control) // it may have been killed
		_ = control.Close()
		_ = guard.Wait()
	}
	cmd = shell(`read -r _ && exec /bin/sh -c "$0" </dev/null`)
	cmd.Args = append(cmd.Args, line)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = guard.SysProcAttr
	begin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	_, _ = fmt.Fprintln(control, cmd.Process.Pid) // if it was killed, there is no guard
	_, _ = fmt.Fprintln(begin)                    // if it was killed, Wait returns that
	return cmd, release, nil
}

// shell returns the process of a command line.
func shell(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = "/"
	return cmd
}

// process is a command that runs.
type process struct {
	cmd     *exec.Cmd // the command or its supervisor
	control *os.File  // is closed to end the command; nil: there is no supervisor
	report  *os.File
}

// start starts a command, with a supervisor if there is a program for it.
func (c *Command) start(out io.Writer) (p *process, err error) {
	p = &process{cmd: shell(c.Line)}
	p.cmd.Env = environment(os.Environ(), c.Env)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Supervisor != "" {
		command := exec.Command(c.Supervisor, SuperviseCommand, c.Line)
		command.Env, command.SysProcAttr = p.cmd.Env, p.cmd.SysProcAttr
		from, control, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		defer func() { _ = from.Close() }()
		report, to, err := os.Pipe()
		if err != nil {
			_ = control.Close()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		defer func() { _ = to.Close() }()
		command.Stdin, command.ExtraFiles = from, []*os.File{to}
		if c.held != nil {
			command.ExtraFiles = append(command.ExtraFiles, c.held)
		}
		p = &process{command, control, report}
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = outputGrace
	if err := p.cmd.Start(); err != nil {
		p.close()
		return nil, fmt.Errorf("start command: %w", err)
	}
	return p, nil
}

// end ends the process group of the command.
func (p *process) end(grace time.Duration) {
	if p.control != nil {
		_, _ = p.control.WriteString(grace.String()) // the supervisor may have ended
		_ = p.control.Close()
		return
	}
	endGroup(p.cmd.Process.Pid, grace)
}

// status returns how the command ended. It is not known if its supervisor was killed.
func (p *process) status() (status syscall.WaitStatus, known bool) {
	if p.report == nil {
		status, known = p.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return status, known
	}
	text, _ := io.ReadAll(io.LimitReader(p.report, 20))
	n, err := strconv.ParseUint(string(text), 10, 32)
	return syscall.WaitStatus(n), err == nil
}

func (p *process) close() {
	if p.control != nil {
		_ = p.control.Close()
		_ = p.report.Close()
	}
}
