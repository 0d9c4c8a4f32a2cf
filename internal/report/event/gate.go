package event

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Gate is what giving way to others meant on one device. Lists of four have an element for each tier, 0 to 3.
type Gate struct {
	Device   string                `json:"device"`
	Raw      []byte                `json:"device_raw,omitempty"`
	Medium   string                `json:"medium"`
	Evidence string                `json:"evidence,omitempty"`
	Policy   string                `json:"policy"`
	State    string                `json:"state"`
	Charged  uint64                `json:"charged"`
	Asleep   [report.Tiers]float64 `json:"asleep_seconds"`
	Held     float64               `json:"held_seconds"`
	Engaged  float64               `json:"engaged_seconds"`
	Share    float64               `json:"engaged_share"`
	Windows  [report.Tiers]uint64  `json:"windows"`
	Blamed   []Culprit             `json:"blamed,omitempty"`
	Notes    []string              `json:"notes,omitempty"`
}

// Culprit is a process that used a device.
type Culprit struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"`
	Bytes uint64 `json:"bytes"`
}

// PolicySpan is an I/O policy and since when it held.
type PolicySpan struct {
	Policy string  `json:"policy"`
	Since  float64 `json:"since_seconds"`
}

// Yielding is how a job gave way to others: part of the figures of a summary, and of a status.
type Yielding struct {
	Policies []PolicySpan `json:"policies,omitempty"`
	Gates    []Gate       `json:"gates,omitempty"`
	Without  *float64     `json:"seconds_without,omitempty"`
}

// NewGate makes the form of g in an event, of a job that has run for some time.
func NewGate(g *report.Gate, elapsed time.Duration) Gate {
	out := Gate{
		Medium: g.Medium, Evidence: g.Why, Policy: g.Policy, State: g.State.Key(), Charged: g.Charged,
		Held: g.Held.Seconds(), Engaged: g.Engaged.Seconds(), Windows: g.Windows,
	}
	out.Device, out.Raw = Escape(g.Device)
	if elapsed > 0 {
		out.Share = min(1, g.Engaged.Seconds()/elapsed.Seconds())
	}
	for tier, d := range g.Asleep {
		out.Asleep[tier] = d.Seconds()
	}
	for _, c := range g.Blamed {
		name, _ := Escape(c.Name)
		out.Blamed = append(out.Blamed, Culprit{PID: c.PID, Name: name, Bytes: c.Bytes})
	}
	for _, note := range g.Notes {
		text, _ := Escape(note)
		out.Notes = append(out.Notes, text)
	}
	return out
}

func yielding(t *report.Totals) Yielding {
	var y Yielding
	for _, p := range t.Policies {
		y.Policies = append(y.Policies, PolicySpan{p.Policy, p.Since.Seconds()})
	}
	for i := range t.Gates {
		y.Gates = append(y.Gates, NewGate(&t.Gates[i], t.Elapsed))
	}
	if without, ok := t.Without(); ok && t.GaveWay() {
		seconds := without.Seconds()
		y.Without = &seconds
	}
	return y
}
