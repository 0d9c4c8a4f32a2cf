package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

const logTime = "2006-01-02 15:04:05"

// LogLine is a line of the service's log.
type LogLine struct{ event.Log }

// Text writes time, job and text.
func (l *LogLine) Text(w io.Writer) error {
	text := human.Harmless(l.Log.Text)
	if l.Job != "" {
		text = human.Printable(l.Job) + ": " + text
	}
	_, err := fmt.Fprintln(w, show.Prose(w, l.Time.Local().Format(logTime)+" "+text))
	return err
}

// Events returns the line.
func (l *LogLine) Events() []any { return []any{&l.Log} }

// FailedObject is an object that failed in a run.
type FailedObject struct{ event.Error }

// Text writes path, operation and cause.
func (o *FailedObject) Text(w io.Writer) error {
	item := ""
	if o.Item != "" {
		item = human.Printable(o.Item) + ": "
	}
	_, err := fmt.Fprintf(w, "%s%s: %s\n", item, human.Printable(o.Op), human.Harmless(o.Error.Error.Text))
	return err
}

// Events returns the object as the step printed it.
func (o *FailedObject) Events() []any { return []any{&o.Error} }

// wideLog is the width of a terminal from which on the table of runs has all columns.
const wideLog = 120

// Runs are runs of the service.
type Runs struct{ List []event.Run }

// Text writes a table.
func (r *Runs) Text(w io.Writer) error {
	if len(r.List) == 0 {
		_, err := io.WriteString(w, "no run is recorded\n")
		return err
	}
	t := table{head: []string{"Start", "Job~", "Trigger", "Outcome", "Took>", "Files>", "Read>", "Stored>", "Message|"}}
	narrow := show.Width(w) > 0 && show.Width(w) < wideLog
	if narrow {
		t.head = []string{"Start", "Job~", "Outcome", "Took>", "Stored>", "Message|"}
	}
	for i := range r.List {
		run := &r.List[i]
		files, read, stored := "", "", ""
		for k := range run.Steps {
			if f, ok := record.FiguresOf(&run.Steps[k]); ok {
				files, read, stored = human.Count(f.Files), human.Size(f.Read), human.Size(f.Stored)
			}
		}
		said := run.Warnings
		if run.Message != "" {
			said = append([]string{run.Message}, said...)
		}
		cells := []string{run.Start.Local().Format(logTime), human.Printable(run.Job), human.Printable(string(run.Trigger)),
			human.Printable(run.Outcome), human.Span(run.End.Sub(run.Start)), files, read, stored,
			human.Harmless(strings.Join(said, "\n"))}
		if narrow {
			cells = []string{cells[0], cells[1], cells[3], cells[4], cells[7], cells[8]}
		}
		t.add(cells...)
	}
	return t.write(w)
}

// Events returns the runs.
func (r *Runs) Events() (all []any) {
	for i := range r.List {
		all = append(all, &r.List[i])
	}
	return all
}

// NotifyTests are the results of test messages.
type NotifyTests struct{ List []event.NotifyTest }

// Text writes a line for each way.
func (n *NotifyTests) Text(w io.Writer) error {
	for _, r := range n.List {
		result := "sent"
		switch {
		case r.Skipped != "":
			result = "skipped: " + r.Skipped
		case r.Error != "":
			result = "failed: " + human.Harmless(r.Error)
		}
		if _, err := fmt.Fprintf(w, "%s to %s: %s\n", r.Way, human.Printable(r.To), result); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

// Events returns the results.
func (n *NotifyTests) Events() (all []any) {
	for i := range n.List {
		all = append(all, &n.List[i])
	}
	return all
}

// Hook is how a command around a backup ended. Text prints nothing: its output is a note.
type Hook struct{ event.Hook }

// Text implements Record.
func (h *Hook) Text(io.Writer) error { return nil }

// Events returns the event.
func (h *Hook) Events() []any { return []any{&h.Hook} }
