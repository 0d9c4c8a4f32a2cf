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
	Policy     string    `json:"policy"` // in effect
	// end of the policy if it was set for a time; the one before follows
	PolicyUntil *time.Time `json:"policy_until,omitempty"`
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
	Until *time.Time `json:"policy_until,omitempty"`
	Notes []string   `json:"notes"` // what could not be changed
}
