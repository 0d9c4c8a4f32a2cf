package show

import (
	"bytes"
	"fmt"

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
	Width  int  // of the terminal, in columns; 0: there is none
	Full   bool // reports have all figures
}

// Prose returns a text broken at words where the terminal ends.
func (p *Page) Prose(text string) string { return human.Wrap(text, p.Width) }

// Linef writes a line, broken at words where the terminal ends.
func (p *Page) Linef(format string, args ...any) {
	fmt.Fprintln(p, p.Prose(fmt.Sprintf(format, args...)))
}

// Styled returns text, in a style if the page has colours.
func (p *Page) Styled(s Style, text string) string {
	if !p.Colors {
		return text
	}
	return s.paint(text)
}
