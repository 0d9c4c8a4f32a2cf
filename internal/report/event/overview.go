package event

import "time"

// Overview is what `tidemark status` shows.
type Overview struct {
	Type    string  `json:"message_type"`      // "overview"
	Service *Daemon `json:"service,omitempty"` // as `daemon`, if the service runs
	Jobs    []Job   `json:"jobs"`              // list of running jobs as `job`, those of the service included
	// location of the default repository; this and the times only without the service
	Repository string     `json:"repository,omitempty"`
	LastBackup *time.Time `json:"last_backup,omitempty"` // newest snapshot that this machine made and did not forget
	Proven     *Proven    `json:"proven,omitempty"`      // as `last_verified`
	Problems   []string   `json:"problems,omitempty"`    // what is missing here, and why
}
