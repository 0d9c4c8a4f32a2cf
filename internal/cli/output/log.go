package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// LogLine is a line of the service's log.
type LogLine struct{ event.Log }

// Text writes time, job and text.
func (l *LogLine) Text(w *show.Page) {
	text := human.Harmless(l.Log.Text)
	if l.Job != "" {
		text = human.Printable(l.Job) + ": " + text
	}
	w.Linef("%s %s", day(l.Time), text)
}

// Events returns the line.
func (l *LogLine) Events() []any { return []any{&l.Log} }

// FailedObject is an object that failed in a run.
type FailedObject struct{ event.Error }

// Text writes path, operation and cause.
func (o *FailedObject) Text(w *show.Page) {
	item := ""
	if o.Item != "" {
		item = human.Printable(o.Item) + ": "
	}
	fmt.Fprintf(w, "%s%s: %s\n", item, human.Printable(o.Op), human.Harmless(o.Error.Error.Text))
}

// Events returns the object as the step printed it.
func (o *FailedObject) Events() []any { return []any{&o.Error} }

// wideLog is the width of a terminal from which on the table of runs has all columns.
const wideLog = 120

// Runs are runs of the service.
type Runs struct{ List []event.Run }

// Text writes a table.
func (r *Runs) Text(w *show.Page) {
	if len(r.List) == 0 {
		fmt.Fprintln(w, "no run is recorded")
		return
	}
	t := table{head: []string{"Start", "Job~", "Trigger", "Outcome", "Took>", "Files>", "Read>", "Stored>", "Message|"}}
	narrow := w.Width > 0 && w.Width < wideLog
	if narrow {
		t.head = []string{"Start", "Job~", "Outcome", "Took>", "Stored>", "Message|"}
	}
	for i := range r.List {
		run := &r.List[i]
		files, read, stored := "", "", ""
		for k := range run.Steps {
			if sum := record.BackupOf(&run.Steps[k]); sum != nil {
				files, read = human.Count(sum.TotalFiles), human.Size(sum.Bytes.Read)
				stored = human.Size(sum.DataAddedPacked)
			}
		}
		said := run.Warnings
		if run.Message != "" {
			said = append([]string{run.Message}, said...)
		}
		cells := []string{day(run.Start), human.Printable(run.Job), human.Printable(string(run.Trigger)),
			human.Printable(run.Outcome), human.Span(run.End.Sub(run.Start)), files, read, stored,
			human.Harmless(strings.Join(said, "\n"))}
		if narrow {
			cells = []string{cells[0], cells[1], cells[3], cells[4], cells[7], cells[8]}
		}
		t.add(cells...)
	}
	t.write(w)
}

// Events returns the runs.
func (r *Runs) Events() []any { return events(r.List) }

// NotifyTests are the results of test messages.
type NotifyTests struct{ List []event.NotifyTest }

// Text writes a line for each way.
func (n *NotifyTests) Text(w *show.Page) {
	for _, r := range n.List {
		result := "sent"
		switch {
		case r.Skipped != "":
			result = "skipped: " + r.Skipped
		case r.Error != "":
			result = "failed: " + human.Harmless(r.Error)
		}
		fmt.Fprintf(w, "%s to %s: %s\n", r.Way, human.Printable(r.To), result)
	}
}

// Events returns the results.
func (n *NotifyTests) Events() []any { return events(n.List) }

// Hook is how a command around a backup ended. Text prints nothing: its output is a note.
type Hook struct{ event.Hook }

// Text implements Record.
func (h *Hook) Text(*show.Page) {}

// Events returns the event.
func (h *Hook) Events() []any { return []any{&h.Hook} }
