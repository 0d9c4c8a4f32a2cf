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

// Action is what a request asks for.
type Action string

// The actions of the service.
const (
	ShowStatus        = askStatus
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
	Action Action    `json:"request"`
	Job    string    `json:"job,omitempty"`  // "": all jobs; of a Reload: one that was removed on purpose
	Until  time.Time `json:"until,omitzero"` // of a pause, zero: until it is resumed; of an acceleration, zero: now
}

// ServeDaemon makes the socket of the service in dir, as Serve does for a job. do carries out an order and returns the
// state afterwards; several goroutines call it. It fails if another process serves there.
func ServeDaemon(ctx context.Context, dir string, do func(Command) (event.Daemon, error)) (stop func(), err error) {
	return serveDaemon(ctx, dir, do, usualLimits())
}

func serveDaemon(ctx context.Context, dir string, do func(Command) (event.Daemon, error), l limits) (func(), error) {
	if checkDir(dir) == nil && alive(filepath.Join(dir, daemonSocket)) {
		return nil, errors.New("the service of this user is already running; 'tidemark status' shows it")
	}
	return serveAt(ctx, dir, daemonSocket, func(q request) any { return answerOrder(q, do) }, l)
}

func answerOrder(q request, do func(Command) (event.Daemon, error)) any {
	switch q.Action {
	case ShowStatus, StartJob, StopJob, PauseJob, ResumeJob, Reload, Accelerate, CheckAccess:
	default:
		return refuse("unknown request %q; there are %s, %s, %s, %s, %s, %s, %s and %s", q.Action, ShowStatus, StartJob,
			StopJob, PauseJob, ResumeJob, Reload, Accelerate, CheckAccess)
	}
	d, err := do(q.Command)
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

// Do sends an order and returns the state afterwards. The error is ErrNoDaemon if the service does not run.
func (s Service) Do(ctx context.Context, o Command) (event.Daemon, error) {
	var d event.Daemon
	if err := checkDir(filepath.Dir(s.path)); err != nil {
		return d, errors.Join(ErrNoDaemon, err)
	}
	err := ask(ctx, s.path, request{Command: o}, "daemon", &d)
	switch {
	case errors.Is(err, ErrGone):
		return event.Daemon{}, ErrNoDaemon
	case err != nil:
		return event.Daemon{}, fmt.Errorf("ask the service: %w", err)
	}
	return d, nil
}
