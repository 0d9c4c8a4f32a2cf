package misses

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

// child is another process that does single operations when told.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// TouchWord is the first argument that makes the program such a process; the second one is the file. It then calls Touch.
const TouchWord = "touch"

func startChild(ctx context.Context, path string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, TouchWord, path)}
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.cmd.Start()
}

// touch does one and tells when it began and ended.
func (c *child) touch(kind string) (rig.Span, error) {
	if _, err := fmt.Fprintln(c.in, kind); err != nil {
		return rig.Span{}, err
	}
	var from, to int64
	if _, err := fmt.Fscanf(c.out, "%d %d\n", &from, &to); err != nil {
		return rig.Span{}, fmt.Errorf("ask the other process: %w", err)
	}
	return rig.Span{From: time.Unix(0, from), To: time.Unix(0, to)}, nil
}

// now lets single operations be done at random moments until the time told, and returns when each was done.
func (c *child) now(ctx context.Context, kind string, until time.Time) (done []rig.Span, err error) {
	for time.Now().Before(until) {
		at, err := c.touch(kind)
		if err != nil {
			return nil, err
		}
		done = append(done, at)
		// Mostly longer than a window, so that the load is found at full speed as well as in one.
		if err := rig.Pause(ctx, 250*time.Millisecond+time.Duration(rand.Int64N(int64(600*time.Millisecond)))); err != nil {
			return nil, err
		}
	}
	return done, nil
}

func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// Touch is what the other process does: for each line on in, one operation, and a line on out.
func Touch(path string, in io.Reader, out io.Writer) error {
	reader, err := rig.NewToucher(path, false)
	if err != nil {
		return err
	}
	writer, err := rig.NewToucher(path, true)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		from := time.Now()
		switch strings.TrimSpace(lines.Text()) {
		case "read":
			err = reader.Read()
		case "write":
			err = writer.Write()
		default:
			err = fmt.Errorf("%q is neither read nor write", lines.Text())
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d %d\n", from.UnixNano(), time.Now().UnixNano())
	}
	return errors.Join(reader.Close(), writer.Close())
}
