package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// stateText names the state of a gate for people.
func stateText(s iopolicy.State) string {
	return [...]string{"full speed", "in a window", "waiting"}[s]
}

// StateKey is the name of the state of a gate in JSON.
func StateKey(s iopolicy.State) string { return [...]string{"full_speed", "in_window", "waiting"}[s] }

// Process is a process that used a device. Its name is from the system and may have any bytes.
type Process struct {
	PID   int    `json:"pid"` // process
	Name  string `json:"name"`
	Bytes uint64 `json:"bytes"`              // its I/O
	Peer  bool   `json:"tidemark,omitempty"` // true for another run of tidemark
}

// String returns the program with its process ID, "fio 1234"; "another tidemark (1234)" for a peer.
func (c Process) String() string {
	switch {
	case c.Peer:
		return fmt.Sprintf("another tidemark (%d)", c.PID)
	case c.PID == 0:
		return human.Printable(c.Name)
	}
	return fmt.Sprintf("%s %d", human.Printable(c.Name), c.PID)
}

// Gate is what one device's gate has done with the job's I/O so far.
type Gate struct {
	Device string // "sda", "//nas/share"
	Medium string // "ssd", "hdd", "remote"
	Why    string // the evidence for it, a sentence
	Policy string // of the job, now
	State  iopolicy.State
	// operations that were seen to reach the device: inside windows, where each takes a slot, all of them
	Charged         uint64
	Asleep          [iopolicy.Tiers]time.Duration // by tier, summed over sleepers: may exceed the time on the wall
	Held            time.Duration                 // time on the wall in which the job slept and had no I/O on the device
	Engaged         time.Duration                 // time on the wall in which a window was open
	Windows         [iopolicy.Tiers]uint64        // opened, by the tier of the process that opened them
	iopolicy.Impact                               // what the job costs others while a window is open
	Blamed          []Process                     // known processes that opened them, by bytes
	Current         []Process                     // of these, the ones that used the device in the last seconds
	Notes           []string                      // sentences that the user should know about how the device is watched
}

// Slowed returns the part of their speed that others lost at most, while they used the device.
func (g *Gate) Slowed() float64 {
	if g.Engaged <= 0 {
		return 0
	}
	return min(1, g.Lost.Seconds()/g.Engaged.Seconds())
}

// Yielded reports whether a worker slept at the gate. An open window is not enough: the job may have had no I/O
// meanwhile.
func (g *Gate) Yielded() bool { return g.Held > 0 || g.Asleep != [iopolicy.Tiers]time.Duration{} }

// Title is the device with its medium: "sda (ssd)".
func (g *Gate) Title() string { return human.Device(g.Device, g.Medium) }

// Whom names what the job yields to: "fio 1234 on sda (ssd)", "fio 1234 and 2 more on sda (ssd)", "other programs on
// sda (ssd)".
func (g *Gate) Whom() string { return Whom(g.Blamed) + " on " + g.Title() }

// WhomNow is Whom of the processes that use the device now. One that has ended is not named: what it left in the page
// cache may still be written.
func (g *Gate) WhomNow() string { return Whom(g.Current) + " on " + g.Title() }

// Whom names the first process and counts the others.
func Whom(all []Process) string {
	if len(all) == 0 {
		return "other programs"
	}
	text := all[0].String()
	if n := len(all) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// GatesSince returns what the gates did since an earlier observation.
func GatesSince(now, earlier []Gate) []Gate {
	out := slices.Clone(now)
	for i := range out {
		g := &out[i]
		at := slices.IndexFunc(earlier, func(e Gate) bool { return e.Device == g.Device })
		if at < 0 {
			continue
		}
		e := &earlier[at]
		g.Charged = minus(g.Charged, e.Charged)
		g.Held, g.Engaged = max(0, g.Held-e.Held), max(0, g.Engaged-e.Engaged)
		for t := range iopolicy.Tiers {
			g.Asleep[t] = max(0, g.Asleep[t]-e.Asleep[t])
			g.Windows[t] = minus(g.Windows[t], e.Windows[t])
		}
	}
	return out
}

// PolicySpan is an I/O policy and since when it held.
type PolicySpan struct {
	// `important`, `standard`, `utility`, `throttle` or `passive`
	Policy string  `json:"policy"`
	Since  float64 `json:"since_seconds"` // from the start of the job
}

// Gates sets the function that returns the gates of the job. It is called once, before the first Snapshot. ask may be
// called concurrently and after the end of the job, so it should be cheap.
func (l *Ledger) Gates(ask func() []Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates = ask
}

// SinceNow returns what ask returns, less what the gates have done until now. A run has used them before its elapsed
// time began, for instance to make the repository.
func SinceNow(ask func() []Gate) func() []Gate {
	before := ask()
	return func() []Gate { return GatesSince(ask(), before) }
}

// leastSpan is how long a policy must be in effect to be reported. A job with policy auto starts with one policy and
// changes it some milliseconds later, when the repository is open.
const leastSpan = 250 * time.Millisecond

// Policy sets the I/O policy in effect from now on. A policy of less than 250 ms is dropped, and its time counts for
// the next one.
func (l *Ledger) Policy(word string) {
	at := l.since().Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := at
	if n := len(l.policies); n > 0 && l.policies[n-1].Policy != word && at-l.policies[n-1].Since < leastSpan.Seconds() {
		begin = l.policies[n-1].Since
		l.policies = l.policies[:n-1]
	}
	if n := len(l.policies); n == 0 || l.policies[n-1].Policy != word {
		l.policies = append(l.policies, PolicySpan{word, begin})
	}
}

// Policy returns the policies of the job in order: "throttle, then important after 32 s"; empty if unknown.
func (t *Totals) Policy() string {
	var b strings.Builder
	for i, p := range t.Policies {
		if i == 0 {
			b.WriteString(p.Policy)
		} else {
			fmt.Fprintf(&b, ", then %s after %s", p.Policy, human.Span(time.Duration(p.Since*float64(time.Second))))
		}
	}
	return b.String()
}

// Slept reports whether the job slept at any gate.
func (t *Totals) Slept() bool {
	return slices.ContainsFunc(t.Gates, func(g Gate) bool { return g.Yielded() })
}

// leastAwake: a job that did not sleep for one part of so many can be estimated to have needed that part.
const leastAwake = 10

// Without estimates how long the job would have taken without yielding: the elapsed time minus the sleep on the device
// where it slept longest. It is too low where the job computed while it slept, and since it would have shared the
// device; too high where small I/O was slower, and where it slept on one device only. If it slept nearly all of the
// time, ok is false: the rest is only what it computed meanwhile.
func (t *Totals) Without() (took time.Duration, ok bool) {
	took = t.Elapsed
	if g := t.stillest(); g != nil {
		took -= g.Held
	}
	return took, took*leastAwake >= t.Elapsed
}

// stillest returns the gate at which the job stood still longest; nil if there is none.
func (t *Totals) stillest() (longest *Gate) {
	for i := range t.Gates {
		if g := &t.Gates[i]; longest == nil || g.Held > longest.Held {
			longest = g
		}
	}
	return longest
}

// Yielded returns the gate that stalled the job longest, and for which part of the elapsed time; nil if the job never
// yielded.
func (t *Totals) Yielded() (g *Gate, share float64) {
	if g = t.stillest(); g == nil || g.Held <= 0 || t.Elapsed <= 0 {
		return nil, 0
	}
	return g, min(1, g.Held.Seconds()/t.Elapsed.Seconds())
}

// StoodStill returns the gate that stalled the job for more than half of the elapsed time, and that share; nil and 0
// without one. The stages of the workers do not show it, since a sleeping worker is in the stage whose I/O waits.
func (t *Totals) StoodStill() (g *Gate, share float64) {
	if g, share = t.Yielded(); share <= 0.5 {
		return nil, 0
	}
	return g, share
}
