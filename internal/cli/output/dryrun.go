package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Would is what a dry run of a restore would do with one object, and why.
type Would struct {
	// `restore`, `replace`, `update` (metadata only), `leave` or `delete`
	What string `json:"action"`
	event.Path
	Why string `json:"reason"` // text
}

// Text writes one line.
func (o *Would) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "would %s %s: %s\n", o.What, human.Printable(o.Exact()), o.Why)
	return err
}

// Events returns the record.
func (o *Would) Events() []any { return []any{event.Of("would", o)} }

// DryRun is what a command would have done.
type DryRun struct {
	Would string `json:"would"`
}

// Text writes one line.
func (d *DryRun) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "dry run: would %s; nothing was written\n", human.Printable(d.Would))
	return err
}

// Events returns the record.
func (d *DryRun) Events() []any { return []any{event.Of("dry_run", d)} }
