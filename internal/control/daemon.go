package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// daemonSocket is the name of the service's socket. A directory has one service.
const daemonSocket = "daemon"

// Action is what a request to the service asks for.
type Action string

// The actions.
const (
	ShowStatus Action = askStatus
	StartJob   Action = "start"
	StopJob    Action = "stop"
	PauseJob   Action = "pause"
	ResumeJob  Action = "resume"
	Reload     Action = "reload"
	Accelerate Action = "accelerate" // the policy of steps that start before Until is important until then

	// CheckAccess adds to the state what macOS allows the service: the answer for a terminal is another one.
	CheckAccess Action = "check-access"
)

// Command is a request to the service.
type Command struct {
	Action Action
	Job    string    // "": all jobs; of a Reload: one that was removed on purpose
	Until  time.Time // end of a pause, zero: until it is resumed; end of an acceleration, zero: now
}

// ServeDaemon makes the socket of the service in dir, as Serve does for a job. do carries out an order and returns the
// state afterwards; several goroutines call it. The error is ErrDaemonRuns if another process serves there.
func ServeDaemon(ctx context.Context, dir string, do func(Command) (event.Daemon, error)) (stop func(), err error) {
	return serveDaemon(ctx, dir, do, usualLimits())
}

func serveDaemon(ctx context.Context, dir string, do func(Command) (event.Daemon, error), l limits) (func(), error) {
	if checkDir(dir) == nil && alive(filepath.Join(dir, daemonSocket)) {
		return nil, ErrDaemonRuns
	}
	return serveAt(ctx, dir, daemonSocket, func(q request) any { return answerOrder(q, do) }, l)
}

func answerOrder(q request, do func(Command) (event.Daemon, error)) any {
	o := Command{Action: Action(q.Request), Job: q.Job}
	switch o.Action {
	case ShowStatus, StartJob, StopJob, ResumeJob, Reload, CheckAccess:
	case PauseJob, Accelerate:
		if q.Until != nil {
			o.Until = *q.Until
		}
	default:
		return refuse("unknown request %q; there are %s, %s, %s, %s, %s, %s, %s and %s", q.Request, ShowStatus, StartJob,
			StopJob, PauseJob, ResumeJob, Reload, Accelerate, CheckAccess)
	}
	d, err := do(o)
	if err != nil {
		return refuse("%v", err)
	}
	d.Type, d.Version = "daemon", protocol
	return d
}

// Service is the service of this user, as its socket is reached.
type Service struct{ path string }

// Daemon returns the service whose socket is in dir, whether or not it runs.
func Daemon(dir string) Service { return Service{filepath.Join(dir, daemonSocket)} }

// Status returns the state of the service. The error is ErrNoDaemon if it does not run.
func (s Service) Status(ctx context.Context) (event.Daemon, error) {
	return s.Do(ctx, Command{Action: ShowStatus})
}

// Do sends an order and returns the state afterwards. The error is ErrNoDaemon if the service does not run, and
// ErrRefused if it rejects the order.
func (s Service) Do(ctx context.Context, o Command) (event.Daemon, error) {
	q := request{Version: protocol, Request: string(o.Action), Job: o.Job}
	if !o.Until.IsZero() {
		q.Until = &o.Until
	}
	var d event.Daemon
	if err := checkDir(filepath.Dir(s.path)); err != nil {
		return d, errors.Join(ErrNoDaemon, err)
	}
	err := ask(ctx, s.path, q, "daemon", &d)
	switch {
	case errors.Is(err, ErrGone):
		return event.Daemon{}, ErrNoDaemon
	case err != nil:
		return event.Daemon{}, fmt.Errorf("ask the service: %w", err)
	}
	return d, nil
}
