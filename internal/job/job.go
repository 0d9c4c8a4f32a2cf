// Package job reads the jobs of the service from an option file, computes when they are due, and edits their stanzas.
//
// A job is a stanza (SERVERNAME name) with a SCHEDULE line. The lines before the first stanza apply to all jobs. A file
// without stanzas and with a SCHEDULE line is one job, called "default".
package job

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// Default is the name of the job of a file without stanzas.
const Default = options.NoStanza

// Job is one job of an option file.
type Job struct {
	Name       string
	Group      string   // the stanza, if it has several repositories: each is a job; "": of the first or only one
	Copies     bool     // it copies the snapshots of the stanza to the repository of COPYTO, and backs nothing up
	File       string   // the option file
	Content    []byte   // of the option file
	Server     string   // value of --server-name; "" for Default
	Sources    []string // absolute
	Repository string   // location, as text
	Schedule   Schedule
	Spec       *options.Spec // all options of the stanza
}

// Schedule is when a job is due.
type Schedule interface {
	// Next returns the first time after t, in t's location; zero: never.
	Next(t time.Time) time.Time
	// String returns the schedule as it is written in an option file.
	String() string
}

// Times for an orderly end.
const (
	stepTime   = time.Minute      // of a step, without commands
	signalTime = 15 * time.Second // of a command that is asked to end, before it is killed
)

// Grace is how long a step may take to end in an orderly way. A backup ends the command that runs, and runs those that
// undo what others did.
func (j *Job) Grace(backup bool) time.Duration {
	hooks := j.Spec.Job().Hooks
	if !backup || hooks.Before+hooks.After+hooks.EndSource == "" {
		return stepTime
	}
	grace := stepTime + signalTime
	for _, line := range []string{hooks.After, hooks.EndSource} {
		if line != "" {
			grace += hooks.Timeout + signalTime
		}
	}
	return grace
}
