package event

import (
	"encoding/json"
	"time"
)

// Daemon is the state of the service.
type Daemon struct {
	Type    string      `json:"message_type"` // "daemon"
	Version int         `json:"version"`      // of the protocol
	PID     int         `json:"pid"`
	Start   time.Time   `json:"start"`
	Options string      `json:"option_file"`
	Jobs    []DaemonJob `json:"jobs"`
}

// DaemonJob is a job of the service.
type DaemonJob struct {
	Name       string   `json:"name"`
	Sources    []string `json:"sources"`
	Repository string   `json:"repository"` // location
	Schedule   string   `json:"schedule"`
	// `idle`, `running`, `waiting` (due, and something is in the way), `retrying` or `paused` (by hand)
	State string `json:"state"`
	// of a running job: `backup`, `forget`, `prune`, `check`, `drill`
	Step        string     `json:"step,omitempty"`
	PID         int        `json:"pid,omitempty"`         // of the step, as a job of `tidemark tier`
	WaitsFor    string     `json:"waits_for,omitempty"`   // in words
	Next        *time.Time `json:"next,omitempty"`        // next run; none while paused
	LastRun     *Run       `json:"last_run,omitempty"`    // that ended
	LastBackup  *time.Time `json:"last_backup,omitempty"` // end of the last run with a snapshot
	LastProven  *time.Time `json:"last_proven,omitempty"` // end of the last check or drill without a fault
	Failures    int        `json:"failures"`              // runs that failed since the last that did not
	PausedUntil *time.Time `json:"paused_until,omitempty"`
}

// Run is the record of one run of a job.
type Run struct {
	Type    string `json:"message_type"` // "run"
	Version int    `json:"version"`      // of the record: 1
	ID      string `json:"id"`           // unique in the record
	Job     string `json:"job"`
	// `schedule`, `missed` (caught up), `appeared` (its target), `retry` or `hand`
	Trigger string    `json:"trigger"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	// `done`, `incomplete` (a snapshot without some objects), `failed`, `stopped` (by hand or because the service ended)
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message,omitempty"`  // why it is not `done`
	Snapshot string    `json:"snapshot,omitempty"` // ID
	Steps    []RunStep `json:"steps"`
}

// RunStep is one command of a run.
type RunStep struct {
	Step     string    `json:"step"` // as in the state of a job
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	ExitCode int       `json:"exit_code"`
	Message  string    `json:"message,omitempty"`
	// what the command printed as its summary, unchanged
	Summary json.RawMessage `json:"summary,omitempty"`
}
