package control

import (
	"time"

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
type Status struct {
	Type       string    `json:"message_type"` // "job"
	Version    int       `json:"version"`      // of the protocol
	PID        int       `json:"pid"`
	Command    []string  `json:"command"` // the name of the program and its arguments
	Job        string    `json:"job"`     // "backup", "restore", "check", "run"
	Sources    []string  `json:"sources"` // absolute paths
	Repository string    `json:"repository,omitempty"`
	Start      time.Time `json:"start"`
	Policy     string    `json:"policy"`
	Gates      []Gate    `json:"gates"`              // one for each device the job has used
	Progress   *Progress `json:"progress,omitempty"` // nil where nobody counts
}

// Gate is what has happened at the gate of one device.
type Gate struct {
	Device     string                  `json:"device"`
	Medium     string                  `json:"medium"` // "ssd", "hdd"
	State      string                  `json:"state"`  // "disengaged", "engaged", "now"
	Operations uint64                  `json:"operations"`
	Charged    uint64                  `json:"charged"`         // operations that used up a period
	Asleep     [iopolicy.Tiers]float64 `json:"asleep_seconds"`  // by tier of the sleeper, summed over sleepers
	Held       float64                 `json:"held_seconds"`    // in which somebody slept and nothing of the job was at the device
	Engaged    float64                 `json:"engaged_seconds"` // in which a window was open
	Windows    [iopolicy.Tiers]uint64  `json:"windows"`         // by tier of who opened them
	Blame      []Culprit               `json:"blame,omitempty"` // who opened them, where that is known
}

// Culprit is a process whose I/O a job gave way to.
type Culprit struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// Progress is how far a job is.
type Progress struct {
	Phase      string  `json:"phase"`
	Seconds    float64 `json:"seconds_elapsed"`
	Files      uint64  `json:"files_done"`
	TotalFiles uint64  `json:"total_files"` // 0: not known yet
	Bytes      uint64  `json:"bytes_done"`
	TotalBytes uint64  `json:"total_bytes"` // 0: not known yet
	Errors     uint64  `json:"error_count"`
}

// NewGate puts what a gate tells in the form of a Status.
func NewGate(s iopolicy.Stats, blame []Culprit) Gate {
	g := Gate{
		Device: s.Name, Medium: mediumWord(s.Medium), State: stateWord(s.State), Operations: s.Operations, Charged: s.Charged,
		Held: s.Held.Seconds(), Engaged: s.Engaged.Seconds(), Windows: s.Windows, Blame: blame,
	}
	for tier, asleep := range s.Asleep {
		g.Asleep[tier] = asleep.Seconds()
	}
	return g
}

func mediumWord(m iopolicy.Medium) string {
	if m == iopolicy.SSD {
		return "ssd"
	}
	return "hdd"
}

func stateWord(s iopolicy.State) string {
	switch s {
	case iopolicy.Engaged:
		return "engaged"
	case iopolicy.Now:
		return "now"
	case iopolicy.Disengaged:
	}
	return "disengaged"
}

// Change is what became of a request for another policy.
type Change struct {
	Type    string   `json:"message_type"` // "policy_change"
	Version int      `json:"version"`
	PID     int      `json:"pid"`
	Was     string   `json:"was"`
	Policy  string   `json:"policy"`
	Notes   []string `json:"notes"` // what could not be changed with it
}
