// Package hook runs the commands of the option file around a backup: before it, after it, and after one that failed.
//
// What a failure means:
//   - The before-command fails (another exit code than 0, or its timeout): there is no backup, and the run fails.
//   - The after-command runs after every backup, however it ended, and also if the before-command failed, since it
//     undoes what that one did. If it fails, the run fails. A snapshot that was made stays.
//   - The failure-command runs last, after a run that failed. Its own failure is only reported.
//   - A run that is killed ends its command. The service runs the after-command that it owes once it notices that;
//     otherwise the next run of the job begins with it.
//   - A run that a signal stopped has not failed: the after-command runs, the failure-command does not.
//
// The commands run with the rights of the backup. A process of root runs them only if no other user can change the
// option file or the program.
package hook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// ErrUnsafe: users other than root can change what root would run.
var ErrUnsafe = errors.New("users other than root can change it")

// errTimeout is the cause of a context that ended with the timeout of a command.
var errTimeout = errors.New("timeout")

const (
	maxOutput = 64 << 10 // bytes of output that are kept
	maxValue  = 4 << 10  // bytes of a variable; the system allows 128 KiB
	// termGrace is the time between SIGTERM and SIGKILL after the timeout, stopGrace after a signal to this process.
	termGrace, stopGrace = 10 * time.Second, 3 * time.Second
	// outputGrace is how long a command that has ended is waited for if a child in the background holds its output.
	outputGrace = 2 * time.Second
	// groupPoll is the pause between two looks at a process group that was asked to end.
	groupPoll = 20 * time.Millisecond
)

// Command is a command line for /bin/sh.
type Command struct {
	Line       string
	Timeout    time.Duration     // 0: none
	Env        map[string]string // in addition to the caller's environment
	Files      []string          // the option files that contain Line; "" is none
	Supervisor string            // this program, so that the command does not outlive this process; "": none

	held *os.File // stays open until the command has ended
}

// Result is how a command ended.
type Result struct {
	ExitCode  int    // -1: a signal ended it
	Output    []byte // the last 64 KiB of standard output and standard error
	Truncated bool   // there was more output
}

// Run runs a command in a process group of its own, in the folder /, with an empty standard input. It gets the
// environment without passwords. After the timeout, or when ctx ends, Run sends SIGTERM to the group, and SIGKILL to
// what is left of it 10 or 3 seconds later. An exit code other than 0 is an error. Children that a command leaves in
// the background go on, without their output.
func Run(ctx context.Context, c Command) (Result, error) { return run(ctx, c, termGrace) }

func run(ctx context.Context, c Command, grace time.Duration) (Result, error) {
	if err := c.Check(); err != nil {
		return Result{ExitCode: -1}, err
	}
	if c.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
		ctx = limited
	}
	if ctx.Err() != nil {
		return Result{ExitCode: -1}, context.Cause(ctx)
	}
	out := &tail{}
	p, err := c.start(out)
	if err != nil {
		return Result{ExitCode: -1}, err
	}
	defer p.close()
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	var cause error
	select {
	case <-ended: //nolint:errcheck // its status is asked for; a child in the background may hold the output
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errTimeout) {
			grace = min(grace, stopGrace)
		}
		p.end(grace)
		<-ended //nolint:errcheck // it ended by a signal
		cause = context.Cause(ctx)
	}
	status, known := p.status()
	result := Result{ExitCode: -1, Output: out.last, Truncated: out.lost}
	if known && status.Exited() {
		result.ExitCode = status.ExitStatus()
	}
	switch {
	case errors.Is(cause, errTimeout):
		return result, fmt.Errorf("ended after %s, its timeout; raise HOOKTIMEOUT if it needs longer", c.Timeout)
	case cause != nil:
		return result, cause
	case !known:
		return result, errors.New("the process that supervises it was ended")
	case status.Signaled():
		return result, fmt.Errorf("ended by signal %s", status.Signal())
	case result.ExitCode != 0:
		return result, fmt.Errorf("exit code %d", result.ExitCode)
	}
	return result, nil
}

// endGroup ends all processes of a group. The ID of a group is not used again while the group has a member.
func endGroup(group int, grace time.Duration) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for end := time.Now().Add(grace); syscall.Kill(-group, 0) == nil; time.Sleep(groupPoll) {
		if time.Now().After(end) {
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return
		}
	}
}

// environment returns the environment of a command: environ without what leads to a password, and with add.
func environment(environ []string, add map[string]string) []string {
	kept := slices.DeleteFunc(options.WithoutSecrets(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, replaced := add[name]
		own := strings.HasPrefix(name, "TIDEMARK_") && strings.Contains(name, "PASSWORD")
		return replaced || own || name == "CREDENTIALS_DIRECTORY"
	})
	for _, name := range slices.Sorted(maps.Keys(add)) {
		kept = append(kept, name+"="+clean(add[name]))
	}
	return kept
}

// clean returns a value without control characters, passwords in addresses and excessive length.
func clean(value string) string {
	value = human.Harmless(store.Mask(value))
	if len(value) > maxValue {
		value = strings.ToValidUTF8(value[:maxValue], "")
	}
	return value
}

// tail is a writer that keeps the last maxOutput bytes.
type tail struct {
	last []byte
	lost bool
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if over := len(t.last) - maxOutput; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
		t.lost = true
	}
	return len(p), nil
}
