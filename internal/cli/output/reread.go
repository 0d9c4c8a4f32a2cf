package output

import (
	"fmt"
	"io"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Reread is what came of reading unchanged files again after a backup.
type Reread struct{ *backup.Reread }

// Text writes a line, and what to do about each file that differs.
func (r *Reread) Text(w io.Writer) error {
	text := fmt.Sprintf("reread %s (%s) in %s\n", human.Plural(r.Files, "unchanged file"), human.Size(r.Bytes),
		human.Span(time.Duration(r.Seconds*float64(time.Second))))
	for _, err := range r.Unreadable {
		text += fmt.Sprintf("warning: cannot reread an unchanged file: %s\n", human.Printable(err))
	}
	for i := range r.Differing {
		text += fmt.Sprintf("warning: %s differs from snapshot %s although its change time is the same: a write was missed, "+
			"or the file is damaged\n", human.Printable(r.Differing[i].Exact()), r.Old.Short())
	}
	if len(r.Differing) > 0 {
		text += fmt.Sprintf("Snapshot %s keeps the old content; the next backup stores the new one. Compare the two, then "+
			"remove the old one with 'tidemark forget %s'.\n", r.Protected.Short(), r.Protected.Short())
	}
	_, err := io.WriteString(w, text)
	return err
}

// Events returns the record.
func (r *Reread) Events() []any { return []any{event.Of("reread", r.Reread)} }
