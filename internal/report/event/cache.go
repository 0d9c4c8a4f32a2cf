package event

import "time"

// Cache is the cache folder of a repository on this machine.
type Cache struct {
	Type       string    `json:"message_type"` // "cache"
	Repository string    `json:"repository_id"`
	Path       string    `json:"path"`
	Location   string    `json:"location,omitempty"`
	Bytes      int64     `json:"bytes"`
	Used       time.Time `json:"last_used"`
	InUse      bool      `json:"in_use"`
	Gone       bool      `json:"repository_gone"`
	Removed    bool      `json:"removed"`
}
