package event

import "time"

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
