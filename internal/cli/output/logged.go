package output

import (
	"context"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// logged is a Printer that also writes to logs, but not what is shown: that may be a recovery key.
type logged struct {
	Printer
	errors, sessions *Text // nil: no such log
}

// Logged returns p, or a printer that also writes to logs: warnings and failures to errors; these, other messages and
// the full reports of backups and restores to sessions. nil is no such log. --quiet does not shorten a log.
func Logged(p Printer, errors, sessions io.Writer) Printer {
	if errors == nil && sessions == nil {
		return p
	}
	l := &logged{Printer: p}
	if errors != nil {
		l.errors = NewText(errors, errors, TextOptions{})
	}
	if sessions != nil {
		l.sessions = NewText(sessions, sessions, TextOptions{Output: options.Output{Full: true}})
	}
	return l
}

// each calls do for each log.
func (l *logged) each(do func(t *Text)) {
	for _, t := range []*Text{l.errors, l.sessions} {
		if t != nil {
			do(t)
		}
	}
}

// Report implements Printer.
func (l *logged) Report(r Record) error {
	switch r.(type) {
	case *Backup, *Restore:
		if l.sessions != nil {
			_ = l.sessions.Print(r) // the writer of a log reports its own errors
		}
	}
	return l.Printer.Report(r)
}

// Note implements Printer.
func (l *logged) Note(text string) {
	if l.errors != nil && strings.HasPrefix(text, "warning:") {
		l.errors.Note(text)
	}
	if l.sessions != nil {
		l.sessions.Note(text)
	}
	l.Printer.Note(text)
}

// Watch implements Printer.
func (l *logged) Watch(ctx context.Context, ledger *report.Ledger) func() {
	ledger.OnIssue(func(i report.Issue) {
		if !i.Remark {
			l.each(func(t *Text) { t.Note(i.String()) })
		}
	})
	return l.Printer.Watch(ctx, ledger)
}

// Fail implements Printer.
func (l *logged) Fail(code int, text string, full bool) {
	l.each(func(t *Text) { t.Fail(code, text, full) })
	l.Printer.Fail(code, text, full)
}
