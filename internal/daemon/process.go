package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// child is a step that runs as a process with a process group of its own.
type child struct {
	cmd    *exec.Cmd
	output *output
	grace  time.Duration
	ended  chan struct{} // closed when it has ended
	result Result        // valid then
	stop   sync.Once
}

// StartChild starts a step as a child process. program is this program, and environ the environment of the service. A
// step does not outlive the service: on Linux it gets a signal when the service dies.
func StartChild(program string, environ []string, s Step, progress func(*event.Status)) (Process, error) {
	out := &output{progress: progress, list: failureList{path: s.Failed}}
	p := &child{output: out, grace: s.Grace, ended: make(chan struct{})}
	p.cmd = exec.Command(program, s.Args...)
	p.cmd.Env = withoutService(environ)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output // one pipe, and one goroutine that reads it
	p.cmd.SysProcAttr = processGroup()
	p.cmd.WaitDelay = 5 * time.Second // for children that keep the pipe open
	if s.Failed != "" {
		_ = os.Remove(s.Failed) // of an earlier, interrupted try
	}
	if s.Options != nil {
		end, err := p.pass(s.Options)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		defer end()
	}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// OptionsVariable names the descriptor from which a step reads the option file, so that a mistake that comes into the
// file does no harm before it is noticed.
const OptionsVariable = "TIDEMARK_OPTIONS_FD"

// pass has the process read the options from a pipe. end is called when it has started, or could not be.
func (c *child) pass(content []byte) (end func(), err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	const first = 3 // of ExtraFiles, behind the standard streams
	c.cmd.ExtraFiles = []*os.File{from}
	c.cmd.Env = append(c.cmd.Env, fmt.Sprintf("%s=%d", OptionsVariable, first))
	go func() {
		_, _ = to.Write(content) // a process that has ended does not read it
		_ = to.Close()
	}()
	return func() { _ = from.Close() }, nil
}

// run starts the process and waits for its end, on one thread: Linux sends the signal of a dead parent when the thread
// ends that started the child.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	err = c.cmd.Wait()
	c.output.end()
	c.result = c.output.result(exitCode(c.cmd.ProcessState))
	if c.result.Message == "" && c.cmd.ProcessState == nil {
		c.result.Message = err.Error()
	}
	close(c.ended)
}

// exitCode returns the exit code of a process as a shell does.
func exitCode(state *os.ProcessState) int {
	if state == nil {
		return exitCannotRun
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return state.ExitCode()
}

// PID implements Process.
func (c *child) PID() int { return c.cmd.Process.Pid }

// Wait implements Process.
func (c *child) Wait() Result { <-c.ended; return c.result }

// Stop implements Process. One signal has a command end in an orderly way.
func (c *child) Stop() {
	c.stop.Do(func() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		go func() {
			select {
			case <-c.ended:
			case <-time.After(c.grace):
				c.kill()
			}
		}()
	})
}

// kill ends the process and its children, unless it was waited for: then its number may be another's.
func (c *child) kill() {
	if err := c.cmd.Process.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) {
		_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	}
}

// withoutService returns an environment without what systemd meant for the service only.
func withoutService(environ []string) []string {
	own := []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"}
	return slices.DeleteFunc(slices.Clone(environ), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return slices.Contains(own, name)
	})
}
