package show

import (
	"bytes"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Style is how a line looks on a terminal with colours. Each can be read on a light and on a dark background, which
// green and yellow cannot.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold        // results, warnings, titles
	Red         // errors; bold, too
)

// sequence starts a style; reset ends all.
func (s Style) sequence() string {
	return [...]string{"", "\x1b[1m", "\x1b[1;31m"}[s]
}

const reset = "\x1b[0m"

// paint returns text in a style.
func (s Style) paint(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return s.sequence() + text + reset
}

// Page collects output, and records to what terminal it goes.
type Page struct {
	bytes.Buffer
	Colors bool
	Width  int // of the terminal, in columns; 0: there is none
}

// Width returns the columns that a line for w may have; 0: any number.
func Width(w io.Writer) int {
	if p, ok := w.(*Page); ok {
		return p.Width
	}
	return 0
}

// Prose returns a text for w, broken at words if w is a Page of a terminal.
func Prose(w io.Writer, text string) string { return human.Wrap(text, Width(w)) }

func styled(w io.Writer, s Style, text string) string {
	if p, ok := w.(*Page); ok && p.Colors {
		return s.paint(text)
	}
	return text
}

// Strong returns text for w, bold if w is a Page with colours.
func Strong(w io.Writer, text string) string { return styled(w, Bold, text) }

// Bad returns text for w, red if w is a Page with colours.
func Bad(w io.Writer, text string) string { return styled(w, Red, text) }
