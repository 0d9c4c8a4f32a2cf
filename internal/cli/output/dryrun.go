package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

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
