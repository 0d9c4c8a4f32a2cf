package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// yielding returns a line for each device on which the job yields now: to whom, and how fast it goes meanwhile. A
// further line names the command that makes it faster.
func (v *view) yielding(width int) []string {
	var lines []string
	for i := range v.gates {
		g := &v.gates[i]
		if g.State == report.FullSpeed || i >= len(v.speeds.Stalled) {
			continue
		}
		parts := []string{"yielding to " + g.WhomNow()}
		if v.speeds.Stalled[i] > 0 {
			parts = append(parts, "asleep "+human.Share(v.speeds.Stalled[i]))
		}
		lines = append(lines, fit(width, append(parts, human.Speed(v.speeds.Bytes)+" meanwhile")))
	}
	if len(lines) > 0 && v.pid != 0 {
		lines = append(lines, fmt.Sprintf("  to go faster now: tidemark tier set important --pid %d", v.pid))
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

// gateRow is a line about a device. Those that are a time have the part of the elapsed time behind it.
type gateRow struct {
	label string
	time  time.Duration
	count uint64
	share bool
}

func (r *gateRow) text(elapsed time.Duration) string {
	if r.time == 0 {
		return fmt.Sprintf("  %-30s %14s", r.label, human.Count(r.count))
	}
	line := fmt.Sprintf("  %-30s %14s s", r.label, human.Grouped(r.time.Seconds()))
	if r.share && elapsed > 0 {
		line += fmt.Sprintf(" %6.1f %%", 100*min(1, r.time.Seconds()/elapsed.Seconds()))
	}
	return line
}

// gateRows are the lines about a device. What is zero has none.
func gateRows(g *report.Gate) []gateRow {
	var rows []gateRow
	add := func(r gateRow) {
		if r.time > 0 || r.count > 0 {
			rows = append(rows, r)
		}
	}
	add(gateRow{label: "asleep", time: g.Held, share: true})
	add(gateRow{label: "windows open", time: g.Engaged, share: true})
	for tier, n := range g.Windows {
		add(gateRow{label: fmt.Sprintf("windows opened by tier %d", tier), count: n})
	}
	add(gateRow{label: "operations at the device", count: g.Charged})
	add(gateRow{label: "device time in windows", time: g.Turns, share: true})
	return rows
}

// writeGates writes, for each device on which the job yielded or that has notes, what happened there, and how long the
// job would have taken without yielding.
func writeGates(b *strings.Builder, t *report.Totals) {
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

func writeGate(b *strings.Builder, g *report.Gate, elapsed time.Duration) {
	if !g.Yielded() {
		fmt.Fprintf(b, "\nYielding on %s: never.\n", g.Title())
	} else {
		fmt.Fprintf(b, "\nYielding on %s:\n", g.Title())
		for _, r := range gateRows(g) {
			b.WriteString(r.text(elapsed) + "\n")
		}
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
func WriteUndisturbed(w io.Writer, t *report.Totals) error {
	var b strings.Builder
	if policy := t.Policy(); len(t.Gates) > 0 && !t.Slept() {
		if policy != "" {
			fmt.Fprintf(&b, "I/O policy: %s. ", policy)
		}
		var names []string
		for i := range t.Gates {
			names = append(names, t.Gates[i].Title())
		}
		fmt.Fprintf(&b, "The job never yielded on %s.\n", strings.Join(names, ", "))
	}
	for i := range t.Gates {
		g := &t.Gates[i]
		if g.Yielded() || g.Engaged == 0 {
			continue
		}
		fmt.Fprintf(&b, "Others used %s, and the job did not sleep:\n", g.Title())
		for _, r := range gateRows(g) {
			b.WriteString(r.text(t.Elapsed) + "\n")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write session report: %w", err)
	}
	return nil
}
