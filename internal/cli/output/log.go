package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// LogLine is a line of the service's log: time, job and text.
func LogLine(l *event.Log) Record {
	return &result{func(w *show.Page) {
		text := human.Harmless(l.Text)
		if l.Job != "" {
			text = human.Printable(l.Job) + ": " + text
		}
		w.Linef("%s %s", day(l.Time), text)
	}, []any{l}}
}

// FailedObject is an object that failed in a run: path, operation and cause. Scripts get it as the step printed it.
func FailedObject(o *event.Error) Record {
	return &result{func(w *show.Page) {
		item := ""
		if o.Item != "" {
			item = human.Printable(o.Item) + ": "
		}
		fmt.Fprintf(w, "%s%s: %s\n", item, human.Printable(o.Op), human.Harmless(o.Error.Text))
	}, []any{o}}
}

// wideLog is the width of a terminal from which on the table of runs has all columns.
const wideLog = 120

// Runs are runs of the service: a table.
func Runs(list []event.Run) Record {
	return &result{func(w *show.Page) { writeRuns(w, list) }, events(list)}
}

func writeRuns(w *show.Page, list []event.Run) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no run is recorded")
		return
	}
	t := table{head: []string{"Start", "Job~", "Trigger", "Outcome", "Took>", "Files>", "Read>", "Stored>", "Message|"}}
	narrow := w.Width > 0 && w.Width < wideLog
	if narrow {
		t.head = []string{"Start", "Job~", "Outcome", "Took>", "Stored>", "Message|"}
	}
	for i := range list {
		run := &list[i]
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

// NotifyTests are the results of test messages: a line for each way.
func NotifyTests(list []event.NotifyTest) Record {
	return &result{func(w *show.Page) {
		for _, r := range list {
			result := "sent"
			switch {
			case r.Skipped != "":
				result = "skipped: " + r.Skipped
			case r.Error != "":
				result = "failed: " + human.Harmless(r.Error)
			}
			fmt.Fprintf(w, "%s to %s: %s\n", r.Way, human.Printable(r.To), result)
		}
	}, events(list)}
}

// Hook is how a command around a backup ended. Text prints nothing: its output is a note.
func Hook(h *event.Hook) Record { return &result{func(*show.Page) {}, []any{h}} }
