// Package record keeps what the service did: each run as a line of JSON, and a log in words. Metrics and notifications
// follow from the same events.
package record

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Kind is what happened.
type Kind uint8

// The kinds of events.
const (
	Started   Kind = iota // a run begins; Job, Trigger
	Progress              // every five minutes of a step; Step, Status
	StepEnded             // Step, Run with the steps until now
	Finished              // Run is complete
	Waiting               // a due job cannot start, or a running one pauses; Text is why
	Resumed               // and goes on
	Note                  // Text
	Loaded                // the option file was read; Text
	Silent                // no backup of Job succeeded for too long; Text
	Invalid               // the stanza of Job, or the option file, has a mistake; Text
	Stalled               // a step makes no progress; Step, Text
	Warned                // a backup warns of a source; Text, Run
)

// Event is something that happened in the service.
type Event struct {
	At      time.Time
	Kind    Kind
	Job     string // "": the service itself
	Trigger event.Trigger
	Step    string
	Text    string
	Alert   string // of Finished: people are notified of Failed, Incomplete or Recovered; of Warned: "warning"; "": no
	Status  *event.Status
	Run     *event.Run
}

// Sink takes events. It returns soon; what takes long goes on elsewhere. An error of a sink never fails a run.
type Sink func(e *Event)
