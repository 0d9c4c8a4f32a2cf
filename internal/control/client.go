package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Running is a job that was found.
type Running struct {
	PID  int
	path string
}

// answerTime bounds the time to an answer. It takes microseconds, unless the job is stopped or the machine overloaded.
const answerTime = 5 * time.Second

// newborn bounds the time from the creation of a socket until it is ready.
const newborn = time.Minute

// Jobs returns the jobs with sockets in dir, by process ID, and removes sockets of dead processes. Without the
// directory there are no jobs.
func Jobs(dir string) ([]Running, error) {
	err := checkDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list control sockets: %w", err)
	}
	var all []Running
	for _, entry := range entries {
		if entry.Type() != fs.ModeSocket {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		pid, ok := parseName(entry.Name())
		switch {
		case ok && alive(path):
			all = append(all, Running{pid, path})
		case ok || abandoned(entry):
			_ = remove(path) // else the next call does
		}
	}
	slices.SortStableFunc(all, func(a, b Running) int { return a.PID - b.PID })
	return all, nil
}

// alive reports whether a process listens. A process ID may be that of another container; a socket without a listener
// refuses connections.
func alive(path string) bool {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// abandoned reports whether an unfinished socket will never be ready.
func abandoned(entry fs.DirEntry) bool {
	if !strings.HasPrefix(entry.Name(), unfinished) {
		return false
	}
	info, err := entry.Info()
	return err == nil && time.Since(info.ModTime()) > newborn
}

// Status returns the state of a job.
func (r Running) Status(ctx context.Context) (event.Job, error) {
	var s event.Job
	if err := ask(ctx, r.path, request{Command: Command{Action: askStatus}}, "job", &s); err != nil {
		return event.Job{}, fmt.Errorf("ask process %d: %w", r.PID, err)
	}
	return s, nil
}

// SetPolicy changes the policy of a job for a time in whole seconds, or until the next change if d is 0.
func (r Running) SetPolicy(ctx context.Context, p iopolicy.Policy, d time.Duration) (event.PolicyChange, error) {
	return r.change(ctx, setPolicy, request{Policy: p.String(), ForSeconds: uint64(d / time.Second)})
}

// ReturnPolicy ends the time of a policy that was set for a time. A job without one stays as it is.
func (r Running) ReturnPolicy(ctx context.Context) (event.PolicyChange, error) {
	return r.change(ctx, returnPolicy, request{})
}

// SetMaxImpact changes how much of their speed others may lose, in percent. The policy stays.
func (r Running) SetMaxImpact(ctx context.Context, percent float64) (event.PolicyChange, error) {
	return r.change(ctx, setImpact, request{MaxImpact: percent})
}

func (r Running) change(ctx context.Context, what Action, q request) (c event.PolicyChange, _ error) {
	q.Action = what
	if err := ask(ctx, r.path, q, "policy_change", &c); err != nil {
		what := "policy"
		if q.Action == setImpact {
			what = "impact"
		}
		return event.PolicyChange{}, fmt.Errorf("set %s of process %d: %w", what, r.PID, err)
	}
	return c, nil
}

// ask sends one request to a socket and reads the answer, which must have a type.
func ask(ctx context.Context, path string, q request, want string, answer any) error {
	q.Version = protocol
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	conn := c.(*net.UnixConn)
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := checkPeer(conn); err != nil {
		return err
	}
	if err := writeLine(conn, q); err != nil {
		return late(ctx, err)
	}
	var raw json.RawMessage
	if err := readLine(bufio.NewReaderSize(conn, answerLine), &raw); err != nil {
		return late(ctx, err)
	}
	return understand(raw, want, answer)
}

// late explains a missing answer.
func late(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: %w within %s", ErrAnswer, ErrLate, answerTime)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: it hung up, because it ends or too many ask; try again", ErrAnswer)
	}
	return fmt.Errorf("%w: %w", ErrAnswer, err)
}

func understand(raw []byte, want string, answer any) error {
	var head refusal
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	switch {
	case head.Type == "refused":
		return fmt.Errorf("refused: %s", head.Message)
	case head.Version != protocol || head.Type != want:
		return fmt.Errorf("%w: it says %q in version %d", ErrAnswer, head.Type, head.Version)
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(answer); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}
