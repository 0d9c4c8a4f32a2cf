// Package output is how commands speak: each result is a Record that knows two forms, lines for people and events for
// scripts, and a Printer writes one of them. No command asks which.
//
// The package refuses to know how results come about, and which exit code they mean.
package output

import (
	"context"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Record is something a command says.
type Record interface {
	// Text writes it for people; ids and paths are safe to show on a terminal.
	Text(w io.Writer) error
	// Events returns it for scripts: values that become one line of JSON each.
	Events() []any
}

// Printer writes records in one of the two forms. It is safe for concurrent use. In what Note, Show and Fail say, what may
// be a password in an address is masked: they quote what a user typed, and it is kept in logs.
type Printer interface {
	// Print writes a result to standard output.
	Print(r Record) error
	// Tell writes what accompanies a result, such as the report at the end of a job; it is left out when the user wants
	// quiet. Scripts always get it.
	Tell(r Record) error
	// Note says something beside the results, on standard error; it is left out when the user wants quiet.
	Note(text string)
	// Show writes a block on standard error that the user must not miss, whatever is left out else.
	Show(text string)
	// Watch shows how a job goes on, and each of its issues, until stop is called.
	Watch(ctx context.Context, l *report.Ledger) (stop func())
	// Fail says why the program ends with a code other than 0. It is the last call.
	Fail(code int, text string)
}
