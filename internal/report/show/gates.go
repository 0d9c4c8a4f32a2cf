package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// yielding returns a line for each device on which the job yields now: to whom, and how fast it goes meanwhile. A
// further line names the command that makes it faster.
func (v *view) yielding(width int) []string {
	var lines []string
	for i := range v.Gates {
		g := &v.Gates[i]
		if g.State == iopolicy.Disengaged || i >= len(v.speeds.Stalled) {
			continue
		}
		parts := []string{"yielding to " + g.WhomNow()}
		if v.speeds.Stalled[i] > 0 {
			parts = append(parts, "asleep "+human.Share(v.speeds.Stalled[i]))
		}
		lines = append(lines, fit(width, append(parts, human.Speed(v.speeds.Bytes)+" meanwhile")))
	}
	if len(lines) > 0 && v.PID != 0 {
		lines = append(lines, fmt.Sprintf("  to go faster now: tidemark tier set important --pid %d", v.PID))
	}
	return lines
}

// yielded is the same of a time that is over.
func yielded(gates []report.Gate, over time.Duration) string {
	var text string
	for i := range gates {
		if g := &gates[i]; g.Held > 0 && over > 0 {
			whom := g.WhomNow()
			if len(g.Current) == 0 {
				whom = g.Whom()
			}
			text += fmt.Sprintf("; asleep %s, yielding to %s", human.Share(min(1, g.Held.Seconds()/over.Seconds())), whom)
		}
	}
	return text
}

// writeGateRows writes the lines about a device: times with their part of the elapsed time, and counts. A zero has no
// line.
func writeGateRows(b *Page, g *report.Gate, elapsed time.Duration) {
	spent := func(label string, d time.Duration) {
		if d <= 0 {
			return
		}
		fmt.Fprintf(b, "  %-30s %14s s", label, human.Grouped(d.Seconds()))
		if elapsed > 0 {
			fmt.Fprintf(b, " %6.1f %%", 100*min(1, d.Seconds()/elapsed.Seconds()))
		}
		fmt.Fprintln(b)
	}
	count := func(label string, n uint64) {
		if n > 0 {
			fmt.Fprintf(b, "  %-30s %14s\n", label, human.Count(n))
		}
	}
	spent("asleep", g.Held)
	spent("windows open", g.Engaged)
	for tier, n := range g.Windows {
		count(fmt.Sprintf("windows opened by tier %d", tier), n)
	}
	count("operations at the device", g.Charged)
	spent("device time in windows", g.Turns)
}

// writeGates writes, for each device on which the job yielded or that has notes, what happened there, and how long the
// job would have taken without yielding.
func writeGates(b *Page, t *report.Totals) {
	slept := t.Slept()
	if policy := t.Policy(); slept && policy != "" {
		fmt.Fprintf(b, "\nI/O policy: %s.\n", policy)
	}
	for i := range t.Gates {
		if g := &t.Gates[i]; g.Yielded() || len(g.Notes) > 0 {
			writeGate(b, g, t.Elapsed)
		}
	}
	if without, ok := t.Without(); ok && without < t.Elapsed {
		fmt.Fprintf(b, "\nWithout yielding the job would have taken about %s instead of %s.\n", human.Span(without),
			human.Span(t.Elapsed))
	}
}

func writeGate(b *Page, g *report.Gate, elapsed time.Duration) {
	if !g.Yielded() {
		fmt.Fprintf(b, "\nYielding on %s: never.\n", g.Title())
	} else {
		fmt.Fprintf(b, "\nYielding on %s:\n", g.Title())
		writeGateRows(b, g, elapsed)
	}
	if g.Turns > 0 {
		fmt.Fprintf(b, "  Others used it %.0f %% of the time. This job slowed them by at most %.1f %%; yielding "+
			"cost it %s.\n",
			100*min(1, g.Engaged.Seconds()/max(elapsed.Seconds(), 1e-9)), 100*g.Slowed(), human.Span(g.Held))
	}
	if g.Measured > 0 {
		fmt.Fprintf(b, "  Measured last: others lost at most %.1f %% of that device time, %.1f %% by calculation.\n",
			100*g.Measured, 100*g.Calculated)
	}
	for _, c := range g.Blamed {
		fmt.Fprintf(b, "  %-30s %14s  %s\n", "used by", human.Size(c.Bytes), process(c))
	}
	for _, note := range g.Notes {
		fmt.Fprintf(b, "  %s\n", human.Printable(note))
	}
}

// process returns the name and the number of a process.
func process(c report.Process) string {
	if c.PID == 0 {
		return human.Printable(c.Name)
	}
	return fmt.Sprintf("%s (%d)", human.Printable(c.Name), c.PID)
}

// WriteUndisturbed writes, for --verbose, what the session report omits of gates at which the job did not sleep: one
// line that lists them, and the windows that were open.
func WriteUndisturbed(b *Page, t *report.Totals) {
	if policy := t.Policy(); len(t.Gates) > 0 && !t.Slept() {
		if policy != "" {
			fmt.Fprintf(b, "I/O policy: %s. ", policy)
		}
		var names []string
		for i := range t.Gates {
			names = append(names, t.Gates[i].Title())
		}
		fmt.Fprintf(b, "The job never yielded on %s.\n", strings.Join(names, ", "))
	}
	for i := range t.Gates {
		g := &t.Gates[i]
		if g.Yielded() || g.Engaged == 0 {
			continue
		}
		fmt.Fprintf(b, "Others used %s, and the job did not sleep:\n", g.Title())
		writeGateRows(b, g, t.Elapsed)
	}
}
