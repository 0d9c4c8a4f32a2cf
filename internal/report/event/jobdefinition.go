package event

import "time"

// JobDefinition is a job of an option file.
type JobDefinition struct {
	Type       string      `json:"message_type"` // "job_definition"
	Name       string      `json:"name"`         // of the stanza
	File       string      `json:"option_file"`  // path
	Sources    []string    `json:"sources"`      // absolute paths
	Repository string      `json:"repository"`   // location
	Schedule   string      `json:"schedule"`     // as in the option file
	Next       []time.Time `json:"next"`         // next times of the schedule; without delays and conditions
	// mistake of its stanza: it does not run, and the other fields are empty
	Problem string `json:"problem,omitempty"`
	Options []any  `json:"options,omitempty"` // of `job show`: those that are set, and those of the service
}
