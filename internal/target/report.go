package target

import (
	"strings"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Result is the outcome of a probe.
type Result string

// The results, worst last.
const (
	Good     Result = "ok"
	Info     Result = "info"     // nothing depends on it
	Degraded Result = "degraded" // weaker than it should be; tidemark works around it
	Unfit    Result = "unfit"    // a repository cannot be kept here
)

// Probe is one property that was tested.
type Probe struct {
	Name     string `json:"name"` // one or two words
	Result   Result `json:"result"`
	Evidence string `json:"evidence"` // what was observed, a sentence
	// what tidemark does about it, or what the user can do; "": nothing
	Remedy string `json:"remedy,omitempty"`
}

// Verdict is the result of all probes.
type Verdict string

// The verdicts.
const (
	Safe       Verdict = "safe"
	IsDegraded Verdict = "degraded"
	IsUnfit    Verdict = "unfit"
)

// Report describes a probed folder.
type Report struct {
	Path     string // absolute
	Device   device.Info
	Identity Identity
	Probes   []Probe
}

// Verdict returns that of the worst probe.
func (r *Report) Verdict() Verdict {
	verdict := Safe
	for _, p := range r.Probes {
		switch p.Result {
		case Unfit:
			return IsUnfit
		case Degraded:
			verdict = IsDegraded
		}
	}
	return verdict
}

// Because returns the probes that decide the verdict; none if it is safe.
func (r *Report) Because() []Probe {
	want := map[Verdict]Result{IsDegraded: Degraded, IsUnfit: Unfit}[r.Verdict()]
	var all []Probe
	for _, p := range r.Probes {
		if p.Result == want {
			all = append(all, p)
		}
	}
	return all
}

// Sentence returns the verdict in words: "safe", or "degraded because of flush, clock".
func (r *Report) Sentence() string {
	var names []string
	for _, p := range r.Because() {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return string(r.Verdict())
	}
	return string(r.Verdict()) + " because of " + strings.Join(names, ", ")
}

func (r *Report) add(name string, result Result, evidence, remedy string) {
	r.Probes = append(r.Probes, Probe{name, result, evidence, remedy})
}
