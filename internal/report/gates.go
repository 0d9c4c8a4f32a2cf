package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Tiers is how many ranks of I/O there are: 0 goes first, 3 gives way to all others.
const Tiers = 4

// TierTimes is time by tier.
type TierTimes [Tiers]time.Duration

// Sum is the time of all tiers.
func (t TierTimes) Sum() (sum time.Duration) {
	for _, d := range t {
		sum += d
	}
	return sum
}

// String lists the tiers that have any: "37 s asleep at tier 3, 1.2 s at tier 2"; "never asleep" if none has.
func (t TierTimes) String() string {
	var parts []string
	for tier := Tiers - 1; tier >= 0; tier-- {
		if t[tier] > 0 {
			word := " asleep"
			if len(parts) > 0 {
				word = ""
			}
			parts = append(parts, fmt.Sprintf("%s%s at tier %d", human.Span(t[tier]), word, tier))
		}
	}
	if len(parts) == 0 {
		return "never asleep"
	}
	return strings.Join(parts, ", ")
}

// GateState is what a gate does with the job's I/O at one moment.
type GateState uint8

// The states of a gate.
const (
	FullSpeed GateState = iota // nobody else is at the device
	InWindow                   // somebody is, or was a moment ago: small operations, one in each period
	Waiting                    // likewise, and this period's operation has been used up
)

// String names the state for people.
func (s GateState) String() string {
	switch s {
	case FullSpeed:
		return "full speed"
	case InWindow:
		return "in a window"
	case Waiting:
		return "waiting"
	}
	return "unknown state"
}

// Key is the name of the state in JSON.
func (s GateState) Key() string {
	switch s {
	case FullSpeed:
		return "full_speed"
	case InWindow:
		return "in_window"
	case Waiting:
		return "waiting"
	}
	return "unknown"
}

// Culprit is a process that was seen to use a device.
type Culprit struct {
	PID   int
	Name  string // as the system tells it: any bytes
	Bytes uint64 // that it moved while it was watched
}

// String is the program with its number: "fio 1234". Nobody in particular has none.
func (c Culprit) String() string {
	if c.PID == 0 {
		return human.Printable(c.Name)
	}
	return fmt.Sprintf("%s %d", human.Printable(c.Name), c.PID)
}

// Gate is what one device's gate has done with the job's I/O so far.
type Gate struct {
	Device  string // "sda", "//nas/share"
	Medium  string // "ssd", "hdd", "remote"
	Why     string // the evidence for it, a sentence
	Policy  string // of who passes, now
	State   GateState
	Charged uint64        // operations that were seen to reach the device: inside windows, where each takes a slot, all of them
	Asleep  TierTimes     // by tier of the sleeper, summed over sleepers: may exceed the time on the wall
	Held    time.Duration // time on the wall in which the job slept and had no I/O on the device
	Engaged time.Duration // time on the wall in which a window was open
	Windows [Tiers]uint64 // opened, by the tier of who opened them
	Blamed  []Culprit     // who opened them, as far as it is known; who moved most first
	Notes   []string      // what the user should know about how the device is watched, each a sentence
}

// GaveWay reports whether anybody slept at the gate. That a window was open is not enough: the job may have had nothing to
// do at the device meanwhile, or only what is admitted in a window.
func (g *Gate) GaveWay() bool { return g.Held > 0 || g.Asleep.Sum() > 0 }

// Title is the device with its medium: "sda (ssd)".
func (g *Gate) Title() string {
	if g.Medium == "" {
		return human.Printable(g.Device)
	}
	return fmt.Sprintf("%s (%s)", human.Printable(g.Device), g.Medium)
}

// Others says in a few words for whom the job waits: "others on sda", "others on sda (fio 1234)", "others on sda (fio 1234
// and 2 more)".
func (g *Gate) Others() string {
	who := ""
	if len(g.Blamed) > 0 {
		who = " (" + g.Blamed[0].String()
		if n := len(g.Blamed) - 1; n > 0 {
			who += fmt.Sprintf(" and %d more", n)
		}
		who += ")"
	}
	return "others on " + human.Printable(g.Device) + who
}

// GatesSince returns what the gates did since an earlier look: times and counts are those of the time between. A gate that
// was not there then is new as a whole.
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
		for t := range Tiers {
			g.Asleep[t] = max(0, g.Asleep[t]-e.Asleep[t])
			g.Windows[t] = minus(g.Windows[t], e.Windows[t])
		}
	}
	return out
}

// PolicySpan is an I/O policy and when it began to hold.
type PolicySpan struct {
	Policy string
	Since  time.Duration // since the job began
}

// Gates tells the ledger whom to ask about the gates the job's I/O passes. It is called once, before anybody looks. ask is
// called whenever somebody looks, by several at once and also after the job has ended, so it should be cheap.
func (l *Ledger) Gates(ask func() []Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates = ask
}

// leastSpan is how long a policy must have held to be told of. A job that chooses for itself begins with one policy, and
// learns some milliseconds later, when the repository is open, that another one fits.
const leastSpan = 250 * time.Millisecond

// Policy says which I/O policy holds from now on. To say again what holds already changes nothing. One that held for less
// than 250 ms is forgotten, and its time counts for the one that follows.
func (l *Ledger) Policy(word string) {
	at := l.since()
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := at
	if n := len(l.policies); n > 0 && l.policies[n-1].Policy != word && at-l.policies[n-1].Since < leastSpan {
		begin = l.policies[n-1].Since
		l.policies = l.policies[:n-1]
	}
	if n := len(l.policies); n == 0 || l.policies[n-1].Policy != word {
		l.policies = append(l.policies, PolicySpan{word, begin})
	}
}

// askGates asks without holding the lock, since whoever answers has locks of his own.
func (l *Ledger) askGates() []Gate {
	l.mu.Lock()
	ask := l.gates
	l.mu.Unlock()
	if ask == nil {
		return nil
	}
	return ask()
}

// Policy tells the policies of the job in the order in which they held: "throttle, then important after 32 s"; empty if
// nobody said.
func (t *Totals) Policy() string {
	var b strings.Builder
	for i, p := range t.Policies {
		if i == 0 {
			b.WriteString(p.Policy)
		} else {
			fmt.Fprintf(&b, ", then %s after %s", p.Policy, human.Span(p.Since))
		}
	}
	return b.String()
}

// GaveWay reports whether the job slept at any gate.
func (t *Totals) GaveWay() bool {
	return slices.ContainsFunc(t.Gates, func(g Gate) bool { return g.GaveWay() })
}

// leastAwake: a job that did not sleep for one part of so many can be estimated to have needed that part.
const leastAwake = 10

// Without estimates how long the job would have taken if nobody had been given way: the elapsed time without that in
// which it slept, of the device where it slept longest. It errs in both directions. Too low: the job computed on while it
// slept, and it would have shared the device with the others. Too high: I/O in small pieces is slower, and it may have
// slept on one device while it did not on another. If it slept for nearly all of the time there is no estimate, and ok is
// false: what is left is then no more than what it computed while it slept.
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

// StoodStill returns the gate that held the job up more than anything else can have: it stood still there for more than
// half of the elapsed time. The share is that part, up to 1. Without such a gate it is nil and 0. The stages of the
// workers cannot tell: who sleeps is in the stage whose I/O waits.
func (t *Totals) StoodStill() (g *Gate, share float64) {
	if g = t.stillest(); g == nil || 2*g.Held <= t.Elapsed {
		return nil, 0
	}
	return g, min(1, g.Held.Seconds()/t.Elapsed.Seconds())
}
