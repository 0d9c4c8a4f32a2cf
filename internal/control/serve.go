package control

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// limits bound the resources of clients.
type limits struct {
	patience    time.Duration // for a whole request, and for the client to read an answer
	pause       time.Duration // between an answer and the next request, against floods
	connections int           // at once; more are closed
}

func usualLimits() limits {
	return limits{patience: 5 * time.Second, pause: 10 * time.Millisecond, connections: 8}
}

// Serve makes a socket for a job in dir, which it creates if missing, and serves it until stop is called or ctx ends.
// stop removes the socket, returns when no request uses the job any more, and ends its term; it may be called
// repeatedly. After an error the job can run all the same, without control.
func Serve(ctx context.Context, dir string, job *Job) (stop func(), err error) {
	return serve(ctx, dir, job, usualLimits())
}

func serve(ctx context.Context, dir string, job *Job, l limits) (func(), error) {
	unique := make([]byte, 4)
	_, _ = rand.Read(unique) // never fails
	name := prefix + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(unique)
	start := time.Now()
	end, err := serveAt(ctx, dir, name, func(q request) any { return job.answer(q, start) }, l)
	if err != nil {
		return nil, err
	}
	return func() { end(); job.End() }, nil
}

// serveAt serves a socket of a name in dir, and answers each request with the value that answer returns for it.
func serveAt(ctx context.Context, dir, name string, answer func(request) any, l limits) (func(), error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	listener, path, err := listen(dir, name)
	if err != nil {
		return nil, fmt.Errorf("make control socket: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{reply: answer, limits: l, slots: make(chan struct{}, l.connections)}
	s.tasks.Go(func() { s.accept(ctx, listener) })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-ctx.Done()
		_ = remove(path) // a stale socket is removed by the next call of Jobs
		_ = listener.Close()
		s.tasks.Wait()
	}()
	return func() { cancel(); <-closed }, nil
}

// listen makes a socket that other users cannot reach, and renames it once it listens: a socket with the final name
// that refuses connections is that of a dead process.
func listen(dir, name string) (*net.UnixListener, string, error) {
	early, path := filepath.Join(dir, unfinished+name), filepath.Join(dir, name)
	if longest := len(syscall.RawSockaddrUnix{}.Path) - 1; len(early) > longest {
		return nil, "", fmt.Errorf("%w: the path %s is longer than the %d bytes a socket may have; set XDG_RUNTIME_DIR to "+
			"a shorter one",
			ErrDirectory, early, longest)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, "", err
	}
	listener.SetUnlinkOnClose(false) // it would remove the early name
	err = os.Chmod(early, 0o600)
	if err == nil {
		err = os.Rename(early, path)
	}
	if err != nil {
		return nil, "", errors.Join(err, listener.Close(), remove(early))
	}
	return listener, path, nil
}

// server serves the clients of one socket.
type server struct {
	reply  func(request) any
	limits limits
	slots  chan struct{}
	tasks  sync.WaitGroup
}

// accept takes connections until the listener is closed.
func (s *server) accept(ctx context.Context, listener *net.UnixListener) {
	for {
		conn, err := listener.AcceptUnix()
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, or the client has left already
			wait(ctx, 10*s.limits.pause)
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.tasks.Go(func() { defer func() { <-s.slots }(); s.talk(ctx, conn) })
		default:
			_ = conn.Close()
		}
	}
}

// talk serves one client until it disconnects, is silent for too long, or sends an invalid line.
func (s *server) talk(ctx context.Context, conn *net.UnixConn) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if checkPeer(conn) != nil {
		return
	}
	r := bufio.NewReaderSize(conn, requestLine)
	for ctx.Err() == nil {
		// One deadline for the whole line: bytes that trickle in do not move it.
		if conn.SetDeadline(time.Now().Add(s.limits.patience)) != nil {
			return
		}
		var q request
		err := readLine(r, &q)
		if err != nil && !errors.Is(err, errSyntax) {
			return
		}
		var reply any
		if err != nil {
			reply = refuse("%v", err)
		} else {
			reply = s.answer(q)
		}
		if conn.SetDeadline(time.Now().Add(s.limits.patience)) != nil || writeLine(conn, reply) != nil || err != nil {
			return
		}
		wait(ctx, s.limits.pause)
	}
}

// answer answers requests of this version.
func (s *server) answer(q request) any {
	if q.Version != protocol {
		return refuse("it speaks version %d of the protocol, and was asked in version %d; ask it with the program it runs",
			protocol, q.Version)
	}
	return s.reply(q)
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// answer answers a request about a job whose socket exists since start.
func (j *Job) answer(q request, start time.Time) any {
	var c event.PolicyChange
	var err error
	switch q.Action {
	case askStatus:
		return j.shown(start)
	case setPolicy:
		p, wrong := iopolicy.ParsePolicy(q.Policy)
		if wrong != nil {
			return refuse("%v", wrong)
		}
		if q.ForSeconds > uint64(LongestTerm/time.Second) {
			return refuse("%d seconds are more than a year; set the policy without a time", q.ForSeconds)
		}
		c, err = j.SetPolicy(p, time.Duration(q.ForSeconds)*time.Second)
	case returnPolicy:
		c, err = j.ReturnPolicy()
	case setImpact:
		return j.setImpact(q.MaxImpact)
	default:
		return refuse("unknown request %q; there are %s, %s, %s and %s", q.Action, askStatus, setPolicy, returnPolicy,
			setImpact)
	}
	if err != nil {
		return refuse("%v", err)
	}
	return c
}

// shown returns the status of a job with what is known of its process.
func (j *Job) shown(start time.Time) event.Job {
	s := j.Status()
	s.Type, s.Version, s.PID, s.Command = "job", protocol, os.Getpid(), shownCommand(os.Args)
	if s.Start.IsZero() {
		s.Start = start
	}
	if s.Sources == nil {
		s.Sources = []string{}
	}
	return s
}

// changed describes a change from a policy. j.mu is held.
func (j *Job) changed(was iopolicy.Policy, notes []string) event.PolicyChange {
	if notes == nil {
		notes = []string{}
	}
	return event.PolicyChange{Type: "policy_change", Version: protocol, PID: os.Getpid(), Was: was.String(),
		Policy: j.policy.String(), Until: j.until, Notes: notes}
}

func (j *Job) setImpact(percent float64) any {
	if j.means.Impact == nil {
		return refuse("the I/O of this program passes no gate, so that its impact cannot be bounded")
	}
	if !(percent >= 0 && percent <= 100) {
		return refuse("an impact of %g %% is not a percentage from 0 to 100", percent)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.means.Impact(percent / 100)
	return j.changed(j.policy, []string{fmt.Sprintf("Others may lose %g %% of their speed.", percent)})
}

// shownCommand returns a command line without passwords and what yields them: such as the value of --password-command,
// and a password in an address.
func shownCommand(args []string) []string {
	const hidden = "***"
	var shown []string
	follows := false // the value of a secret flag
	for _, arg := range args {
		name, _, assigned := strings.Cut(arg, "=")
		secret := secretFlag(name)
		switch {
		case follows:
			arg = hidden
		case secret && assigned:
			arg = name + "=" + hidden
		default:
			arg = store.Mask(arg)
		}
		follows = !follows && secret && !assigned
		shown = append(shown, arg)
	}
	return shown
}

// secretFlag reports whether the value of a flag, of this program or one that it starts, may contain a password.
func secretFlag(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "-") && strings.Contains(name, "password") && !strings.HasSuffix(name, "file")
}
