package report

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// State describes what the job is doing at this moment: the figures of the progress view without estimates, and what
// each worker is at. It is what a signal makes a running program print.
func (l *Ledger) State() string {
	t := l.Snapshot()
	p := t.Progress()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, %s elapsed\n", t.Job, t.Phase, human.Clocked(t.Elapsed))
	fmt.Fprintf(&b, "  %s %s, average %s\n", human.Count(p.Objects), p.Units(),
		human.Items(PerSecond(p.Objects, t.Running())))
	fmt.Fprintf(&b, "  %s; %s %s, average %s\n", human.Size(p.Bytes), t.Moved(), human.Size(p.Moved),
		human.Rate(p.Moved, t.Running()))
	if p.Known {
		fmt.Fprintf(&b, "  %s of %s %s and %s\n", human.Percent(p.Ratio()), human.Count(p.ObjectsTotal), p.Units(),
			human.Size(p.BytesTotal))
	}
	if details := t.Details(); len(details) > 0 {
		fmt.Fprintf(&b, "  %s\n", strings.Join(details, ", "))
	}
	if g, share := t.StoodStill(); g != nil {
		fmt.Fprintf(&b, "  held up mostly by: %s (%.0f %% of the time)\n", g.Whom(), share*100)
	} else if r, share := t.Stages.Bottleneck(); r != Nothing {
		fmt.Fprintf(&b, "  held up mostly by: %s (%.0f %%)\n", r, share*100)
	}
	if policy := t.Policy(); policy != "" {
		fmt.Fprintf(&b, "  I/O policy: %s\n", policy)
	}
	for i := range t.Gates {
		fmt.Fprintf(&b, "  %s\n", t.Gates[i].line())
	}
	for _, c := range l.workers() {
		stage, since := c.stage()
		fmt.Fprintf(&b, "  %s: %s for %.1f s", c.name, stage, max(0, l.since()-since).Seconds())
		if path := c.at(); path != "" {
			fmt.Fprintf(&b, ", at %s", human.Printable(path))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// line is what the gate does now, and has done.
func (g *Gate) line() string {
	line := fmt.Sprintf("%s: %s", g.Title(), stateText(g.State))
	if g.Yielded() {
		line += fmt.Sprintf("; yielded for %s to %s", human.Span(g.Held), g.Whom())
	}
	return line
}

// Details are the figures a job has beyond objects, bytes and speeds, each with its name, for a line of text.
func (t *Totals) Details() []string {
	var parts []string
	switch {
	case t.Job == Backup:
		parts = append(parts, "new "+human.Size(t.Bytes.Processed), "sent "+human.Size(t.Bytes.Transferred))
	case t.Bytes.Fetched > 0:
		parts = append(parts, "fetched "+human.Size(t.Bytes.Fetched))
	}
	if t.Failures > 0 {
		parts = append(parts, human.Plural(t.Failures, "failure"))
	}
	if t.Notes > 0 {
		parts = append(parts, human.Plural(t.Notes, "remark"))
	}
	return parts
}

// OnSignal writes the state to w whenever the process gets the platform's signal for it (SIGUSR1; on macOS also
// SIGINFO, which is ctrl-T), until stop is called.
func OnSignal(l *Ledger, w io.Writer) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stateSignals()...)
	go func() {
		for range signals {
			_, _ = io.WriteString(w, l.State()) // a failed write must not disturb the job
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(signals)
		close(signals)
	})
}
