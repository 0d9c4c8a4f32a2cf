package output

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/manual"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Manual is the result of an installation of man pages.
type Manual manual.Installed

// Text writes where the pages are and how to read them.
func (m *Manual) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d man pages installed in %s\n", m.Pages, human.Printable(m.Dir))
	if err != nil {
		return err
	}
	base := human.Printable(filepath.Dir(m.Dir))
	if !m.InPath {
		_, err = fmt.Fprintf(w, "man does not search that folder; read them with: man -M '%s' tidemark-backup\n", base)
	} else {
		_, err = fmt.Fprintln(w, "read them with: man tidemark-backup")
	}
	return err
}

// Events returns the record.
func (m *Manual) Events() []any {
	shown := *m
	shown.Dir, _ = event.Escape(m.Dir)
	return []any{event.Of("manual", &shown)}
}
