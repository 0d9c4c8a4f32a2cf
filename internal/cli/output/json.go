package output

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// JSON prints for scripts: results, progress and issues on standard output; on standard error notes, and why it failed.
type JSON struct {
	out, err *event.Writer
	raw      io.Writer
	quiet    bool
}

// NewJSON returns a printer on standard output and standard error. With quiet there are no status events.
func NewJSON(out, err io.Writer, quiet bool) *JSON {
	return &JSON{out: event.NewWriter(out), err: event.NewWriter(err), raw: err, quiet: quiet}
}

// Print writes the events of r.
func (j *JSON) Print(r Record) error {
	for _, e := range r.Events() {
		if err := j.out.Write(e); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

// Report is Print: a script selects what it needs.
func (j *JSON) Report(r Record) error { return j.Print(r) }

// Note writes a note event. A write error on standard error cannot be reported.
func (j *JSON) Note(text string) {
	_ = j.err.Write(event.Of("note", map[string]string{"message": store.Mask(strings.TrimSpace(text))}))
}

// Show does nothing: what a user must not miss is in the records too.
func (j *JSON) Show(string) {}

// Watch writes status events every second, and an event for every issue.
func (j *JSON) Watch(ctx context.Context, l *report.Ledger) func() {
	job := l.Snapshot().Job
	l.OnIssue(func(i report.Issue) {
		_ = j.out.Write(event.NewError(job, i)) // the writer remembers its first error, which the summary meets
	})
	silence, stop := report.OnSignal(l, j.raw), func() {}
	if !j.quiet {
		stop = show.Start(ctx, func(ctx context.Context) { j.status(ctx, l) })
	}
	return func() { silence(); stop() }
}

// status writes status events until ctx ends. As for issues, a write error is left to the summary.
func (j *JSON) status(ctx context.Context, l *report.Ledger) {
	show.Observe(ctx, l, show.StatusEvery, false, func(t *report.Totals, s report.Speeds) {
		_ = j.out.Write(event.NewStatus(t, s, l.CurrentPaths()))
	})
}

// Fail writes the exit_error event.
func (j *JSON) Fail(code int, text string, full bool) {
	e := &event.Exit{Type: "exit_error", Code: code, Message: store.Mask(text)}
	if full {
		e.Reason = event.NoSpace
	}
	_ = j.err.Write(e)
}
