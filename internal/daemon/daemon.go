// Package daemon runs jobs by their schedules. Each step of a run is a child process of the same program, so that the
// service itself stays small, and a step is seen and steered by the control socket that every job has.
//
// One goroutine, the loop, owns all state. It wakes when a step ends, the machine changes, an order comes or something
// is due, and at least once a minute, since the clock may step.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

var (
	// ErrFailed: a run failed in a service that ends after its runs.
	ErrFailed = errors.New("not every run succeeded")
	// ErrIncomplete: the snapshot of a run in a service that ends after its runs lacks objects, and no run failed.
	ErrIncomplete = errors.New("not every run was complete")
)

// Clock is the time, so that tests can shorten it.
type Clock interface {
	// Now returns the wall clock without a monotonic part.
	Now() time.Time
	// After returns a channel that gets a value after d. The time for which a machine sleeps may not count.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the clock of the machine.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now().Round(0) }

// After implements Clock.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Step is a command of a run.
type Step struct {
	Name    string        // as in event.RunStep
	Args    []string      // for this program
	Options []byte        // what the option file contained when it was read; nil: it is read again
	Grace   time.Duration // for an orderly end, before it is killed
	Failed  string        // file for the objects that fail, a line of JSON each; made with the first
}

// Result is how a step ended.
type Result struct {
	ExitCode int // 128 plus its number if a signal ended it
	Message  string
	Summary  json.RawMessage // as printed
	Removed  int             // snapshots that a forget removed
	Full     bool            // it failed for lack of space in the repository
	Failures Failures
	Hooks    []event.Hook // commands of the option file that ended
}

// Failures are the objects that a step reported as failed.
type Failures struct {
	Count uint64
	First []string // "path: operation: cause", ten at most
}

// Process is a step that runs.
type Process interface {
	PID() int
	// Wait returns how it ended. It is called once.
	Wait() Result
	// Stop asks it to end, and kills it with its children after a time. It returns at once.
	Stop()
}

// Machine is what the service sees of the machine.
type Machine interface {
	Power(ctx context.Context) machinestate.Power
	// Inhibit keeps the machine from sleeping until release is called, if that is possible.
	Inhibit(ctx context.Context, why string) (release func())
	// Sleeps yields true before the machine sleeps and false after.
	Sleeps(ctx context.Context) <-chan bool
	// Ready lets the machine sleep after Sleeps has yielded true.
	Ready()
	// Changes yields a value when a disk is mounted, or power or network change.
	Changes(ctx context.Context) <-chan struct{}
	// Mounted returns where the file system with a label is mounted.
	Mounted(by, name string) (path string, ok bool)
}

// Config is what a service consists of.
type Config struct {
	World
	Facts
	OptionFile string
	StateDir   string // where the service remembers what was run
	RuntimeDir string // of the control socket; "": without one
	Host       string // name of this machine in snapshots
	Once       bool   // run what is due, then end
}

// World is everything outside the service that it calls: tests have one of their own.
type World struct {
	Clock   Clock
	Machine Machine
	Sink    record.Sink
	Start   func(s Step, progress func(*event.Status)) (Process, error) // starts a step
	Reload  <-chan os.Signal                                            // asks to read the option file again

	Notify   func(state string) // reports the state of the service to systemd; nil: there is none
	Watchdog time.Duration      // systemd wants a ping at least so often; 0: never
}

// Facts are what a service asks about its jobs.
type Facts struct {
	// Load returns the valid jobs of the option file, and the others; the error concerns all jobs.
	Load   func() ([]*job.Job, []job.Invalid, error)
	Remote func(j *job.Job) bool          // the repository is on another machine
	Damage func(j *job.Job) proofs.Damage // of its repository, as this machine has recorded it; nil: unknown
	// Settle runs what a killed run of a job owes, its after-command. ran reports whether there was something; nil: it is
	// not known.
	Settle func(j *job.Job) (ran bool, err error)
	// Access checks what macOS allows this process, in a few seconds; nil: it is not asked. Several goroutines call it.
	Access func() *event.Access
}

// Run runs the service until ctx ends; with Once, until nothing is due.
func Run(ctx context.Context, c *Config) error {
	unlock, err := lock(c.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	s := newService(c)
	if err := s.load(); err != nil {
		return err
	}
	s.recover()
	stop, err := s.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return s.loop(ctx)
}
