package event

import "time"

// Job is a running job as another process sees it.
type Job struct {
	Type       string    `json:"message_type"` // "job"
	Version    int       `json:"version"`      // of the protocol it answers in
	PID        int       `json:"pid"`
	Command    []string  `json:"command"` // the name of the program and its arguments
	Job        string    `json:"job"`     // "backup", "restore", "check", "run"
	Sources    []string  `json:"sources"` // absolute paths
	Repository string    `json:"repository,omitempty"`
	Start      time.Time `json:"start"`
	Policy     string    `json:"policy"`           // that holds now
	Status     *Status   `json:"status,omitempty"` // nil where nobody keeps books
}

// PolicyChange is what became of a request to a running job for another policy.
type PolicyChange struct {
	Type    string   `json:"message_type"` // "policy_change"
	Version int      `json:"version"`
	PID     int      `json:"pid"`
	Was     string   `json:"was"`
	Policy  string   `json:"policy"`
	Notes   []string `json:"notes"` // what could not be changed with it
}
