// Package output formats results. Each result is a Record with two forms, lines for people and events for scripts, and
// a Printer writes one of them.
package output

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Record is a result of a command.
type Record interface {
	// Text writes it for people; ids and paths are safe to show on a terminal.
	Text(w *show.Page)
	// Events returns it for scripts: values that become one line of JSON each.
	Events() []any
}

// result is a record of some events, with what writes it for people.
type result struct {
	text   func(w *show.Page)
	events []any
}

// Text implements Record.
func (r *result) Text(w *show.Page) { r.text(w) }

// Events implements Record.
func (r *result) Events() []any { return r.events }

// one is a record of one event: the fields of a struct, after kind as message_type.
func one(kind string, fields any, text func(w *show.Page)) Record {
	return &result{text, []any{event.Of(kind, fields)}}
}

// events returns the elements of a list as events.
func events[T any](list []T) (all []any) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}

// eventsOf is events of structs without a message_type, which is kind.
func eventsOf[T any](kind string, list []T) (all []any) {
	for i := range list {
		all = append(all, event.Of(kind, &list[i]))
	}
	return all
}

// Printer writes records in one of the two forms. It is safe for concurrent use. Note, Show and Fail mask passwords in
// addresses, since they quote what a user typed and end up in logs.
type Printer interface {
	// Print writes a result to standard output.
	Print(r Record) error
	// Report writes what accompanies a result, such as the report at the end of a job. With --quiet, it writes only the ID
	// of a snapshot that was saved; scripts get all.
	Report(r Record) error
	// Note writes a message to standard error, unless --quiet is given.
	Note(text string)
	// Show writes a block to standard error that the user must not miss.
	Show(text string)
	// Watch shows the progress and the issues of a job until stop is called.
	Watch(ctx context.Context, l *report.Ledger) (stop func())
	// Fail writes why the program ends with a code other than 0; full: the repository has no room. It is the last call.
	Fail(code int, text string, full bool)
}
