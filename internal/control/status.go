package control

import (
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Job is what a socket shows and changes. Its methods are called at any time, by several goroutines, and must not wait
// for the job's own work.
type Job interface {
	// Status returns the state at this moment. What the socket knows by itself, such as the process, it fills in.
	Status() Status
	// SetPolicy makes another policy hold from now on. The notes say what could not be changed with it, for people; an
	// error means that the old policy still holds.
	SetPolicy(p iopolicy.Policy) (notes []string, err error)
}

// Status is the state of a job. Text in it comes from file names and the like: who shows it makes it printable.
type Status = event.Job

// Change is what became of a request for another policy.
type Change = event.PolicyChange
