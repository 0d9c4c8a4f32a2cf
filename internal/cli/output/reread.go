package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Reread is what came of reading unchanged files again after a backup.
type Reread struct {
	*backup.Reread
	Old format.ID // the snapshot that was compared with
}

// Text writes a line, and what to do about each file that differs.
func (r *Reread) Text(w io.Writer) error {
	text := fmt.Sprintf("reread %s (%s) in %s\n", human.Plural(r.Files, "unchanged file"), human.Size(r.Bytes),
		human.Span(r.Took))
	for _, err := range r.Unreadable {
		text += fmt.Sprintf("warning: cannot reread an unchanged file: %s\n", human.Printable(err.Error()))
	}
	for _, path := range r.Differing {
		text += fmt.Sprintf("warning: %s differs from snapshot %s although its change time is the same: a write was missed, "+
			"or the file is damaged\n", human.Printable("/"+path), r.Old.Short())
	}
	if len(r.Differing) > 0 {
		text += fmt.Sprintf("Snapshot %s keeps the old content; the next backup stores the new one. Compare the two, then "+
			"remove the old one with 'tidemark forget %s'.\n", r.Protected.Short(), r.Protected.Short())
	}
	_, err := io.WriteString(w, text)
	return err
}

// Events returns the record.
func (r *Reread) Events() []any {
	e := &event.Reread{Type: "reread", Files: r.Files, Bytes: r.Bytes, Seconds: r.Took.Seconds(), Unreadable: []string{},
		Differing: []event.Path{}}
	for _, err := range r.Unreadable {
		e.Unreadable = append(e.Unreadable, err.Error())
	}
	for _, path := range r.Differing {
		e.Differing = append(e.Differing, event.NewPath("/"+path))
	}
	if len(r.Differing) > 0 {
		e.Old, e.Protected = r.Old.String(), r.Protected.String()
	}
	return []any{e}
}
