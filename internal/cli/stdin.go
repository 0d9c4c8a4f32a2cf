package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// commandGrace is the time between SIGTERM and SIGKILL for a command.
const commandGrace = 3 * time.Second

// fromStdin sets a stream as the source: standard input, or the output of a command.
func (a *app) fromStdin(ctx context.Context, f *backupFlags, args []string, job *backup.Job) error {
	for name := range strings.SplitSeq(f.streamName, "/") {
		if name == "." || name == ".." || strings.ContainsRune(name, 0) || strings.Trim(f.streamName, "/") == "" {
			return usagef("--stdin-filename %q is not the path of a file: give one without . and ..", f.streamName)
		}
	}
	job.Stdin = &backup.Stdin{Name: f.streamName}
	job.Label.Sources = []string{path.Join("/", f.streamName)}
	switch {
	case f.lists.given():
		return usagef("--files-from and --stdin exclude each other")
	case !f.stdinByCommand && len(args) > 0:
		return usagef("--stdin takes no paths")
	case !f.stdinByCommand:
		job.Stdin.Reader = abortable(ctx, a.In)
		return nil
	case len(args) == 0:
		return usagef("--stdin-from-command needs a command: tidemark backup --stdin-from-command -- COMMAND ARGUMENT...")
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = a.Err
	cmd.Env = options.WithoutSecrets(os.Environ()) // the output is stored
	// A process group of its own can be killed with all its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	stream := &commandOutput{cmd: cmd, out: out, launch: a.governor.Start}
	job.Stdin.Reader, job.Stdin.Close = abortable(ctx, stream), stream.wait
	return nil
}

// abortable returns a reader of r whose reads end with ctx, even if r blocks forever, as a terminal or a pipe without a
// writer does. It starts reading at the first Read.
func abortable(ctx context.Context, r io.Reader) io.Reader {
	return &lazyPipe{ctx: ctx, from: r}
}

type lazyPipe struct {
	ctx  context.Context // a reader has no other way to get it
	from io.Reader
	pipe *io.PipeReader
}

func (l *lazyPipe) Read(p []byte) (int, error) {
	if l.pipe == nil {
		in, out := io.Pipe()
		l.pipe = in
		context.AfterFunc(l.ctx, func() { in.CloseWithError(context.Cause(l.ctx)) })
		go func() {
			_, err := io.CopyBuffer(out, l.from, make([]byte, 1<<20))
			out.CloseWithError(err)
		}()
	}
	return l.pipe.Read(p)
}

// commandOutput is the output of a command. The first read starts it, when the repository is known to be open.
type commandOutput struct {
	cmd    *exec.Cmd
	out    io.Reader
	launch func(start func() error) error

	mu      sync.Mutex // guards what follows, and the start: wait may come in the middle of it
	started bool
	failed  error
}

func (c *commandOutput) Read(p []byte) (int, error) {
	if err := c.start(); err != nil {
		return 0, err
	}
	return c.out.Read(p)
}

func (c *commandOutput) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started {
		c.started = true
		if err := c.launch(c.cmd.Start); err != nil {
			c.failed = fmt.Errorf("run %s: %w", c.cmd.Args[0], err)
		}
	}
	return c.failed
}

// wait waits for the end of the command, and returns why it failed: a snapshot of its output would look complete. A
// command that has not been started by then is not started any more.
func (c *commandOutput) wait() error {
	c.mu.Lock()
	runs := c.started && c.failed == nil
	if !c.started {
		c.started, c.failed = true, os.ErrClosed
	}
	c.mu.Unlock()
	if !runs {
		return nil
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("run %s: %w; no snapshot was saved", c.cmd.Args[0], err)
	}
	return nil
}
