package control

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Job is what a socket inspects and changes. Several goroutines call its methods at any time; they must not wait for
// the job's own work.
type Job interface {
	// Status returns the present state. The socket fills in what it knows, such as the process.
	Status() Status
	// SetPolicy changes the policy for a time, or until the next change if d is 0. After the time, the policy returns to
	// the one before, or to what replaced that meanwhile. The notes report, for people, what could not be changed. After
	// an error the old policy still holds.
	SetPolicy(p iopolicy.Policy, d time.Duration) (notes []string, err error)
	// ReturnPolicy ends the time of a policy that was set for a time; otherwise it does nothing.
	ReturnPolicy() (notes []string, err error)
}

// Status is the state of a job. Its text may contain file names, which must be made printable before display.
type Status = event.Job

// Change is the result of a request that changed a job.
type Change = event.PolicyChange
