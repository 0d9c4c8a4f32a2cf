package target

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Result is the outcome of a probe, or of all probes together.
type Result string

// The results, worst last.
const (
	Good     Result = "ok"
	Safe     Result = "safe"     // of all probes: Good and Info only
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

// Report describes a probed folder.
type Report struct {
	Path     string // absolute
	Device   device.Info
	Identity Identity
	Probes   []Probe
}

// Verdict returns Safe, or the result of the worst probe.
func (r *Report) Verdict() Result {
	verdict := Safe
	for _, p := range r.Probes {
		switch p.Result {
		case Unfit:
			return Unfit
		case Degraded:
			verdict = Degraded
		}
	}
	return verdict
}

// Because returns the probes that decide the verdict; none if it is safe.
func (r *Report) Because() []Probe {
	other := func(p Probe) bool { return p.Result != r.Verdict() }
	return slices.DeleteFunc(slices.Clone(r.Probes), other)
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
