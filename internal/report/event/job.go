package event

import "time"

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
	Policy     string    `json:"policy"`           // in effect
	Status     *Status   `json:"status,omitempty"` // as `status`, speeds since the start
}

// PolicyChange is what became of a request to a running job for another policy.
type PolicyChange struct {
	Type    string   `json:"message_type"` // "policy_change"
	Version int      `json:"version"`
	PID     int      `json:"pid"`
	Was     string   `json:"was"`    // old policy
	Policy  string   `json:"policy"` // new policy
	Notes   []string `json:"notes"`  // what could not be changed
}
