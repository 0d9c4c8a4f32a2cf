// Package daemon runs jobs by their schedules. Each step of a run is a child process of the same program, so that the
// service itself stays small, and a step is seen and steered by the control socket that every job has.
package daemon

import (
	"context"
	"time"

	"github.com/tidemark-backup/tidemark/internal/host"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Clock is the time, so that tests can shorten it.
type Clock interface {
	Now() time.Time
	// After returns a channel that gets a value at t by the wall clock, however it steps meanwhile.
	After(t time.Time) <-chan time.Time
}

// Step is a command of a run.
type Step struct {
	Name string // as in event.RunStep
	Args []string
}

// Process is a step that runs.
type Process interface {
	PID() int
	// Wait returns how it ended. It is called once.
	Wait() (event.RunStep, error)
	Pause() error
	Resume() error
	// Stop asks it to end, and kills it with its children after a time.
	Stop()
}

// Runner starts steps.
type Runner interface {
	Start(ctx context.Context, j *job.Job, s Step, progress func(*event.Status)) (Process, error)
}

// Machine is what the service sees of the machine.
type Machine interface {
	Power(ctx context.Context) host.Power
	Inhibit(ctx context.Context, why string) (release func(), err error)
}

// Config is what a service consists of.
type Config struct {
	OptionFile string
	StateDir   string // where the service remembers what was run
	RuntimeDir string // of the control socket
	Load       func() ([]*job.Job, error)
	Clock      Clock
	Runner     Runner
	Machine    Machine
	Sink       record.Sink
}
