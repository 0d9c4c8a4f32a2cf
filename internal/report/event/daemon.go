package event

import (
	"encoding/json"
	"time"
)

// Daemon is the state of the service.
type Daemon struct {
	Type    string      `json:"message_type"`      // "daemon"
	Version int         `json:"version"`           // of the protocol
	PID     int         `json:"pid"`               // of the service
	Start   time.Time   `json:"start"`             // of the service
	Options string      `json:"option_file"`       // path
	Problem string      `json:"problem,omitempty"` // why the option file cannot be used
	Jobs    []DaemonJob `json:"jobs"`              // list of *jobs of the service*
	Access  *Access     `json:"access,omitempty"`  // of the request `check-access`, on macOS
}

// Access is what macOS allows the service.
type Access struct {
	FullDisk Allowed `json:"full_disk_access"` // `granted`, `denied` or `unknown`
	Hidden   string  `json:"hidden,omitempty"` // if denied: a folder that macOS hides
	Servers  Allowed `json:"servers"`          // `granted` (one answers), `doubtful` (no way to one) or `unknown`
	NoWay    string  `json:"no_way,omitempty"` // if doubtful: host and port
}

// Allowed is what is known of a permission.
type Allowed string

// What is known of a permission.
const (
	Granted  Allowed = "granted"
	Denied   Allowed = "denied"
	Doubtful Allowed = "doubtful" // what happens has this cause, or another one
	Unknown  Allowed = "unknown"
)

// DaemonJob is a job of the service.
type DaemonJob struct {
	Name       string   `json:"name"`            // of the stanza; with several repositories, as home@2
	Group      string   `json:"group,omitempty"` // the stanza, if it names several repositories
	Sources    []string `json:"sources"`         // absolute paths
	Repository string   `json:"repository"`      // location
	Schedule   string   `json:"schedule"`        // as in the option file
	// `idle`, `running`, `waiting` (due, and something is in the way), `retrying`, `failed`, `incomplete` (the last run),
	// `damaged` (the repository), `paused` (by hand), `invalid` (it does not run), or `cut` (without the service: its last
	// run did not end)
	State string `json:"state"`
	// of a running job: `backup`, `forget`, `prune`, `check`, `drill`
	Step        string    `json:"step,omitempty"`
	PID         int       `json:"pid,omitempty"`         // of the step, as a job of `tidemark tier`
	WaitsFor    string    `json:"waits_for,omitempty"`   // in words
	Next        time.Time `json:"next,omitzero"`         // next run; none while paused
	LastRun     *Run      `json:"last_run,omitempty"`    // as `run`: the last that ended
	LastBackup  time.Time `json:"last_backup,omitzero"`  // end of the last complete backup
	LastProven  time.Time `json:"last_proven,omitzero"`  // end of the last check or drill without a fault
	Damage      string    `json:"damage,omitempty"`      // found by a check or drill and not healed since
	Failures    int       `json:"failures"`              // runs that failed since the last that did not
	Incomplete  int       `json:"incomplete"`            // runs without some objects since the last that was done
	Stale       bool      `json:"stale"`                 // see `status --help`
	Problem     string    `json:"problem,omitempty"`     // mistake of its stanza; if it was valid, it runs as it was
	PausedUntil time.Time `json:"paused_until,omitzero"` // end of a pause with an end
}

// Run is the record of one run of a job.
type Run struct {
	Type    string `json:"message_type"` // "run"
	Version int    `json:"version"`      // of the record: 1
	ID      string `json:"id"`           // unique in the record
	Job     string `json:"job"`          // name
	// `schedule`, `missed` (caught up), `appeared` (its target), `retry` or `hand`
	Trigger Trigger   `json:"trigger"`
	Start   time.Time `json:"start"` // of the first step
	End     time.Time `json:"end"`   // of the last step
	// `done`, `incomplete` (a snapshot without some objects), `failed`, `stopped` (by hand or because the service ended)
	Outcome  string    `json:"outcome"`
	Message  string    `json:"message,omitempty"`  // why it is not `done`
	Snapshot string    `json:"snapshot,omitempty"` // ID
	Warnings []string  `json:"warnings,omitempty"` // of the backup, such as that most files of a source changed
	Steps    []RunStep `json:"steps"`              // list of *steps*
}

// Trigger is why a run begins.
type Trigger string

// The triggers.
const (
	BySchedule Trigger = "schedule"
	Missed     Trigger = "missed"   // a time of the schedule, caught up
	Appeared   Trigger = "appeared" // the disk or the network of its target
	Retried    Trigger = "retry"    // the run before failed
	ByHand     Trigger = "hand"
)

// RunStep is one command of a run.
type RunStep struct {
	Step     string    `json:"step"`              // as in *jobs of the service*
	Start    time.Time `json:"start"`             // of its process
	End      time.Time `json:"end"`               // of its process
	ExitCode int       `json:"exit_code"`         // see [exit codes](exit-codes.md)
	Message  string    `json:"message,omitempty"` // why it failed
	// objects that failed; 'tidemark log --failed' lists them
	Failed uint64 `json:"failed_objects,omitempty"`
	// what the command printed as its summary, unchanged
	Summary json.RawMessage `json:"summary,omitempty"`
}

// ServiceState is what is known of the service.
type ServiceState string

// The states of the service.
const (
	ServiceRuns        ServiceState = "running"
	ServiceStopped     ServiceState = "stopped"
	ServiceUnreachable ServiceState = "unreachable"
	ServiceOfOther     ServiceState = "other user"
	ServiceAbsent      ServiceState = "not running"
)

// Overview is what `tidemark status` shows.
type Overview struct {
	Type    string  `json:"message_type"`      // "overview"
	Service *Daemon `json:"service,omitempty"` // as `daemon`, if the service answers
	// of the service of this user: `running`, `stopped` (by a signal), `unreachable` (it runs, and does not answer),
	// `other user` (not running, and that of another user is) or `not running`
	State ServiceState `json:"service_state"`
	PID   int          `json:"service_pid,omitempty"`  // process of the service, if it does not answer
	User  string       `json:"service_user,omitempty"` // other user
	// without an answer: list of *jobs of the service*, from the option file and the state folder
	Defined []DaemonJob `json:"defined_jobs,omitempty"`
	// `--repo`: list of *machines* with snapshots in it
	Machines []Machine `json:"machines,omitempty"`
	// what the exit code says: `fresh`, `stale`, `incomplete`, `failed`, `damaged` or `unknown`
	Verdict string `json:"verdict"`
	Jobs    []Job  `json:"jobs"` // list of running jobs as `job`, those of the service included
	// location of the default repository; this and the times only without the service
	Repository string    `json:"repository,omitempty"`
	LastBackup time.Time `json:"last_backup,omitzero"` // newest snapshot that this machine made and did not forget
	Proven     any       `json:"proven,omitempty"`     // as `last_verified`
	Problems   []string  `json:"problems,omitempty"`   // what is missing here, and why
}

// DefinedJobs returns the jobs of the service, or those of its files if it does not answer.
func (o *Overview) DefinedJobs() *[]DaemonJob {
	if o.Service != nil {
		return &o.Service.Jobs
	}
	return &o.Defined
}

// Machine is a machine with snapshots in a repository.
type Machine struct {
	Host string `json:"hostname"` // as in its snapshots
	// newest complete snapshot; none if each lacks objects
	LastBackup time.Time `json:"last_backup,omitzero"`
	Stale      bool      `json:"stale"` // none within ALERTAFTER
}

// JobDefinition is a job of an option file.
type JobDefinition struct {
	Name       string      `json:"name"`        // of the stanza
	File       string      `json:"option_file"` // path
	Sources    []string    `json:"sources"`     // absolute paths
	Repository string      `json:"repository"`  // location
	Schedule   string      `json:"schedule"`    // as in the option file
	Next       []time.Time `json:"next"`        // next times of the schedule; without delays and conditions
	// mistake of its stanza: it does not run, and the other fields are empty
	Problem string `json:"problem,omitempty"`
	Options []any  `json:"options,omitempty"` // of `job show`: those that are set, and those of the service
}

// Log is a line of the service's log.
type Log struct {
	Type    string    `json:"message_type"` // "log"
	Version int       `json:"version"`      // of the record: 1
	Time    time.Time `json:"time"`
	Job     string    `json:"job,omitempty"` // name
	Run     string    `json:"run,omitempty"` // ID
	// `started`, `progress`, `step`, `finished`, `waiting`, `resumed`, `note`, `loaded`, `silent`, `invalid`,
	// `stalled` or `warning`
	Kind  string `json:"kind"`
	Level string `json:"level"` // `info`, `warning` or `error`
	Text  string `json:"text"`  // as printed by `tidemark log`
}

// Sentence is the text with the name of its job.
func (l *Log) Sentence() string {
	if l.Job == "" {
		return l.Text
	}
	return l.Job + ": " + l.Text
}

// Notification is the body of the request to a webhook.
type Notification struct {
	Type string `json:"message_type"` // "notification"
	// `failed`, `incomplete`, `invalid` (a mistake in the option file), `silent` (no backup succeeded for too long),
	// `recovered`, `stalled` (a step makes no progress), `warning` (of a backup), `summary` (of a week) or
	// `test`
	Kind string    `json:"kind"`
	Host string    `json:"host"`          // name of this machine
	Job  string    `json:"job"`           // name
	Time time.Time `json:"time"`          // of the event
	Text string    `json:"text"`          // for people
	Run  *Run      `json:"run,omitempty"` // the last that ended
}

// NotifyTest is the result of a test message.
type NotifyTest struct {
	Type  string `json:"message_type"`    // "notify_test"
	Job   string `json:"job"`             // name
	Way   string `json:"way"`             // `mail`, `webhook`, `healthcheck` or `desktop`
	To    string `json:"to"`              // without secrets
	Error string `json:"error,omitempty"` // why it failed
	// why nothing was sent, which is no failure: the user has no desktop
	Skipped string `json:"skipped,omitempty"`
}

// Hook is how a command of the option file around a backup ended.
type Hook struct {
	Type string `json:"message_type"` // "hook"
	// `before-command`, `after-command`, `failure-command`, `after-command of a killed run` or `snapshot-end-command`
	Step      string `json:"step"`
	ExitCode  int    `json:"exit_code"`           // -1: a signal ended it
	Error     string `json:"error,omitempty"`     // why it failed
	Output    string `json:"output,omitempty"`    // its last 64 KiB
	Truncated bool   `json:"truncated,omitempty"` // there was more
}

// Job is a running job as another process sees it.
type Job struct {
	Type    string   `json:"message_type"` // "job"
	Version int      `json:"version"`      // of the protocol
	PID     int      `json:"pid"`
	Command []string `json:"command"` // the program and its arguments
	// `backup`, `restore`, `check`, `prune`, `copy` or `run`
	Job        string    `json:"job"`
	Sources    []string  `json:"sources"`              // absolute paths
	Repository string    `json:"repository,omitempty"` // location
	Start      time.Time `json:"start"`
	Policy     string    `json:"policy"` // in effect
	// end of the policy if it was set for a time; the one before follows
	PolicyUntil time.Time `json:"policy_until,omitzero"`
	// as `status`; speeds since the start, or of the last 5 s if the job is asked every few seconds
	Status *Status `json:"status,omitempty"`
}

// PolicyChange is what became of a request to a running job for another policy.
type PolicyChange struct {
	Type    string `json:"message_type"` // "policy_change"
	Version int    `json:"version"`
	PID     int    `json:"pid"`
	Was     string `json:"was"`    // old policy
	Policy  string `json:"policy"` // new policy
	// end of the new policy if it was set for a time
	Until time.Time `json:"policy_until,omitzero"`
	Notes []string  `json:"notes"` // what could not be changed
}
