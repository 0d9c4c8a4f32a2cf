package show

import (
	"bytes"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Style is how a line looks on a terminal with colours.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Bold
	Green
	Yellow
	Red
)

// sequence starts a style; reset ends all.
func (s Style) sequence() string {
	return [...]string{"", "\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[31m"}[s]
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

// Good returns text for w, green if w is a Page with colours.
func Good(w io.Writer, text string) string { return styled(w, Green, text) }

// Warn returns text for w, yellow if w is a Page with colours.
func Warn(w io.Writer, text string) string { return styled(w, Yellow, text) }

// Bad returns text for w, red if w is a Page with colours.
func Bad(w io.Writer, text string) string { return styled(w, Red, text) }
