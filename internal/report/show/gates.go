package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// WaitingForOthers says why the job is slow at this moment, one line for each device on which it gives way: "waiting for
// others on sda (fio 1234): 37 s asleep at tier 3".
func WaitingForOthers(t *report.Totals) []string {
	var lines []string
	for i := range t.Gates {
		if g := &t.Gates[i]; g.State != report.FullSpeed {
			lines = append(lines, fmt.Sprintf("waiting for %s: %s", g.Others(), g.Asleep))
		}
	}
	return lines
}

// waited is the same of a time that is over.
func waited(gates []report.Gate) string {
	var text string
	for i := range gates {
		if g := &gates[i]; g.Asleep.Sum() > 0 {
			text += fmt.Sprintf("; waited for %s: %s", g.Others(), g.Asleep)
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
	for tier := report.Tiers - 1; tier >= 0; tier-- {
		add(gateRow{label: fmt.Sprintf("asleep at tier %d", tier), time: g.Asleep[tier]})
	}
	add(gateRow{label: "standing still", time: g.Held, share: true})
	add(gateRow{label: "windows open", time: g.Engaged, share: true})
	for tier, n := range g.Windows {
		add(gateRow{label: fmt.Sprintf("windows opened by tier %d", tier), count: n})
	}
	add(gateRow{label: "operations at the device", count: g.Charged})
	return rows
}

// writeGates writes, for each device on which somebody was given way or about which there is something to know, what
// happened there, and what the job would have taken without. It writes nothing if there is no such device.
func writeGates(b *strings.Builder, t *report.Totals) {
	gave := t.GaveWay()
	if policy := t.Policy(); gave && policy != "" {
		fmt.Fprintf(b, "\nI/O policy: %s.\n", policy)
	}
	for i := range t.Gates {
		if g := &t.Gates[i]; g.GaveWay() || len(g.Notes) > 0 {
			writeGate(b, g, t.Elapsed)
		}
	}
	if without, ok := t.Without(); ok && without < t.Elapsed {
		fmt.Fprintf(b, "\nWithout giving way the job would have taken about %s instead of %s.\n", human.Span(without),
			human.Span(t.Elapsed))
	}
}

func writeGate(b *strings.Builder, g *report.Gate, elapsed time.Duration) {
	if !g.GaveWay() {
		fmt.Fprintf(b, "\nGiving way to others on %s: never.\n", g.Title())
	} else {
		fmt.Fprintf(b, "\nGiving way to others on %s:\n", g.Title())
		for _, r := range gateRows(g) {
			b.WriteString(r.text(elapsed) + "\n")
		}
	}
	for _, c := range g.Blamed {
		fmt.Fprintf(b, "  %-30s %14s  %s\n", "used by", human.Size(c.Bytes), process(c))
	}
	for _, note := range g.Notes {
		fmt.Fprintf(b, "  %s\n", human.Printable(note))
	}
}

// process is a culprit's name and number.
func process(c report.Culprit) string {
	if c.PID == 0 {
		return human.Printable(c.Name)
	}
	return fmt.Sprintf("%s (%d)", human.Printable(c.Name), c.PID)
}

// WriteUndisturbed writes what the session report leaves out of gates at which nobody slept, for those who want to know:
// one line that says so if it is true of all, and what windows were open all the same. Nothing if nothing is gated.
func WriteUndisturbed(w io.Writer, t *report.Totals) error {
	var b strings.Builder
	if policy := t.Policy(); len(t.Gates) > 0 && !t.GaveWay() {
		if policy != "" {
			fmt.Fprintf(&b, "I/O policy: %s. ", policy)
		}
		var names []string
		for i := range t.Gates {
			names = append(names, t.Gates[i].Title())
		}
		fmt.Fprintf(&b, "Nobody had to be given way on %s.\n", strings.Join(names, ", "))
	}
	for i := range t.Gates {
		g := &t.Gates[i]
		if g.GaveWay() || g.Engaged == 0 {
			continue
		}
		fmt.Fprintf(&b, "Others used %s, and nobody had to sleep:\n", g.Title())
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
