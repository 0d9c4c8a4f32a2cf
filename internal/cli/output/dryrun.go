package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Would is what a dry run of a restore would do with one object, and why.
type Would struct{ Path, What, Why string }

// Text writes one line.
func (o *Would) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "would %s %s: %s\n", o.What, human.Printable(o.Path), o.Why)
	return err
}

// Events returns the record.
func (o *Would) Events() []any {
	return []any{&event.Would{Type: "would", Action: o.What, Path: event.NewPath(o.Path), Reason: o.Why}}
}

// DryRun is what a command would have done.
type DryRun struct{ Would string }

// Text writes one line.
func (d *DryRun) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "dry run: would %s; nothing was written\n", human.Printable(d.Would))
	return err
}

// Events returns the record.
func (d *DryRun) Events() []any {
	return []any{&struct {
		Type  string `json:"message_type"`
		Would string `json:"would"`
	}{"dry_run", d.Would}}
}
