package event

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Gate reports how the job yielded on one device. Lists of four have an element for each tier, 0 to 3.
type Gate struct {
	Device   string `json:"device"` // such as `sda`, `//nas/share`
	Raw      []byte `json:"device_raw,omitempty"`
	Medium   string `json:"medium"`             // `ssd`, `hdd` or `remote`
	Evidence string `json:"evidence,omitempty"` // why
	Policy   string `json:"policy"`             // in effect
	// `full_speed`, `in_window` (yielding, one operation per period) or `waiting` (this period is used up)
	State   string                `json:"state"`
	Charged uint64                `json:"charged"`          // operations that reached the device
	Asleep  [report.Tiers]float64 `json:"asleep_seconds"`   // list: worker time
	Held    float64               `json:"stalled_seconds"`  // elapsed time asleep without I/O
	Engaged float64               `json:"yielding_seconds"` // elapsed time in windows
	Share   float64               `json:"yielding_share"`   // ratio
	Windows [report.Tiers]uint64  `json:"windows"`          // list: windows opened; other processes are tier 0
	Impact  *Impact               `json:"impact,omitempty"` // below
	Blamed  []report.Process      `json:"blamed,omitempty"`
	Current []report.Process      `json:"blamed_now,omitempty"` // as blamed, of the last 5 s
	Notes   []string              `json:"notes,omitempty"`      // limitations
}

// Impact is what a job costs others on a device while a window is open.
type Impact struct {
	Max        float64 `json:"max_percent"`             // allowed slowdown of others
	Slowed     float64 `json:"slowed_percent"`          // estimated slowdown of others
	Budget     float64 `json:"turn_budget_seconds"`     // device time of the next turn
	Turns      float64 `json:"turn_seconds"`            // device time of all turns
	Rate       float64 `json:"others_io_per_second"`    // 0 if unknown
	Harm       float64 `json:"harm"`                    // part of a turn that others lose: calculated, or measured if less
	Calculated float64 `json:"harm_calculated"`         // the same by calculation
	Measured   float64 `json:"harm_measured,omitempty"` // the same as measured, at most
	Inflight   float64 `json:"in_flight_seconds"`       // limit of the device time of I/O in flight
}

// Yielding reports how a job yielded: part of the figures of a summary, and of a status.
type Yielding struct {
	Policies []report.PolicySpan `json:"policies,omitempty"` // lists, see below
	Gates    []Gate              `json:"gates,omitempty"`
	// estimated duration if the job had not yielded
	Without *float64 `json:"seconds_without_yielding,omitempty"`
}

// NewGate makes the form of g in an event, of a job that has run for some time.
func NewGate(g *report.Gate, elapsed time.Duration) Gate {
	out := Gate{
		Medium: g.Medium, Evidence: g.Why, Policy: g.Policy, State: g.State.Key(), Charged: g.Charged,
		Held: g.Held.Seconds(), Engaged: g.Engaged.Seconds(), Windows: g.Windows,
	}
	out.Device, out.Raw = Escape(g.Device)
	if g.Max > 0 {
		out.Impact = &Impact{Max: 100 * g.Max, Slowed: 100 * g.Slowed(), Budget: g.Budget.Seconds(), Turns: g.Turns.Seconds(),
			Rate: g.Rate, Harm: g.Harm, Calculated: g.Calculated, Measured: g.Measured, Inflight: g.Inflight.Seconds()}
	}
	if elapsed > 0 {
		out.Share = min(1, g.Engaged.Seconds()/elapsed.Seconds())
	}
	for tier, d := range g.Asleep {
		out.Asleep[tier] = d.Seconds()
	}
	out.Blamed, out.Current = processes(g.Blamed), processes(g.Current)
	out.Notes = Paths(g.Notes)
	return out
}

func processes(all []report.Process) (out []report.Process) {
	for _, c := range all {
		c.Name, _ = Escape(c.Name)
		out = append(out, c)
	}
	return out
}

func yielding(t *report.Totals) Yielding {
	y := Yielding{Policies: t.Policies}
	for i := range t.Gates {
		y.Gates = append(y.Gates, NewGate(&t.Gates[i], t.Elapsed))
	}
	if without, ok := t.Without(); ok && t.Slept() {
		seconds := without.Seconds()
		y.Without = &seconds
	}
	return y
}
