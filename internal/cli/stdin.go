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
	return lazyPipe(sync.OnceValue(func() *io.PipeReader {
		in, out := io.Pipe()
		context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
		go func() {
			_, err := io.CopyBuffer(out, r, make([]byte, 1<<20))
			out.CloseWithError(err)
		}()
		return in
	}))
}

type lazyPipe func() *io.PipeReader

func (l lazyPipe) Read(p []byte) (int, error) { return l().Read(p) }

// commandOutput is the output of a command. The first read starts it, when the repository is known to be open.
type commandOutput struct {
	cmd    *exec.Cmd
	out    io.Reader
	launch func(start func() error) error

	begin  sync.Once // starts the command, or prevents that: wait may come in the middle of it
	failed error     // nil after begin: it was started
}

func (c *commandOutput) Read(p []byte) (int, error) {
	c.begin.Do(func() {
		if err := c.launch(c.cmd.Start); err != nil {
			c.failed = fmt.Errorf("run %s: %w", c.cmd.Args[0], err)
		}
	})
	if c.failed != nil {
		return 0, c.failed
	}
	return c.out.Read(p)
}

// wait waits for the end of the command, and returns why it failed: a snapshot of its output would look complete. A
// command that has not been started by then is not started any more.
func (c *commandOutput) wait() error {
	c.begin.Do(func() { c.failed = os.ErrClosed })
	if c.failed != nil {
		return nil //nolint:nilerr // reads return it
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("run %s: %w; no snapshot was saved", c.cmd.Args[0], err)
	}
	return nil
}
