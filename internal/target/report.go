package target

import (
	"strings"

	"github.com/tidemark-backup/tidemark/internal/device"
)

// Result is how a probe ended.
type Result string

// The results, the worst last.
const (
	Good     Result = "ok"       // as it should be
	Told     Result = "info"     // a property that nothing depends on
	Degraded Result = "degraded" // not as it should be, and tidemark copes with it
	Unfit    Result = "unfit"    // a repository cannot be kept here
)

// Probe is one thing that was tried.
type Probe struct {
	Name     string // one or two words
	Result   Result
	Evidence string // what was seen, a sentence
	Remedy   string // what tidemark does about it, or what the user can do; "" where nothing is to be done
}

// Verdict is what all probes say together.
type Verdict string

// The verdicts.
const (
	Safe       Verdict = "safe"
	IsDegraded Verdict = "degraded"
	IsUnfit    Verdict = "unfit"
)

// Report is what is known of a folder after it was probed.
type Report struct {
	Path     string // absolute
	Device   device.Info
	Identity Identity
	Probes   []Probe
}

// Verdict is that of the worst probe.
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

// Because are the probes that the verdict rests on; none if it is safe.
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

// Sentence is the verdict in words: "safe", or "degraded because of flush, clock".
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
