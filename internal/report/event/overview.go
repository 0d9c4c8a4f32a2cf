package event

import "time"

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
	Repository string     `json:"repository,omitempty"`
	LastBackup *time.Time `json:"last_backup,omitempty"` // newest snapshot that this machine made and did not forget
	Proven     any        `json:"proven,omitempty"`      // as `last_verified`
	Problems   []string   `json:"problems,omitempty"`    // what is missing here, and why
}

// Machine is a machine with snapshots in a repository.
type Machine struct {
	Host string `json:"hostname"` // as in its snapshots
	// newest complete snapshot; none if each lacks objects
	LastBackup *time.Time `json:"last_backup,omitempty"`
	Stale      bool       `json:"stale"` // none within ALERTAFTER
}
