// Package show writes a report.Ledger for people: the progress view on a terminal, the log lines where there is none,
// and the report at the end of a job. It reads the ledger and adds nothing to it, and it never decides where its output
// goes.
package show

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// ANSI sequences: all that the progress view needs.
const (
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
	cursorUp   = "\x1b[%dA"
	noWrap     = "\x1b[?7l"
	wrap       = "\x1b[?7h"
)

// Printer shares a terminal between messages, which scroll, and a block of lines beneath them that changes in place.
// Whatever else is written to the same terminal while the block is shown must go through it: see Write and Through.
type Printer struct {
	mu     sync.Mutex
	out    io.Writer
	size   func() (width, height int)
	colors bool
	shown  []Line // the block on the screen
	inLine bool   // without a block: the cursor stands behind a message that did not end its line
	broken error  // of the first failed write to out; nothing is drawn after it
}

// Line is a line of the block: printable text, and how it looks.
type Line struct {
	Text  string
	Style Style
}

// NewPrinter shares the terminal that out writes to. size returns its present width and height in characters.
func NewPrinter(out io.Writer, size func() (width, height int), colors bool) *Printer {
	return &Printer{out: out, size: size, colors: colors}
}

// TerminalSize returns a function for NewPrinter that asks the terminal f each time; 80 by 24 if it does not know.
func TerminalSize(f *os.File) func() (width, height int) {
	return func() (int, int) {
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil || w <= 0 || h <= 0 {
			return 80, 24
		}
		return w, h
	}
}

// IsTerminal reports whether a block of lines can be redrawn on f. termName is the environment's TERM.
func IsTerminal(f *os.File, termName string) bool {
	return termName != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Write writes a message of one or more lines above the block. If the last line is not
// ended, the block beneath it starts a line of its own, so that neither garbles the other.
func (p *Printer) Write(b []byte) (int, error) { return p.writeTo(p.out, b) }

// Through returns a writer for another stream that ends on the same terminal, such as standard output beside standard
// error.
func (p *Printer) Through(w io.Writer) io.Writer { return through{p, w} }

type through struct {
	printer *Printer
	w       io.Writer
}

func (t through) Write(b []byte) (int, error) { return t.printer.writeTo(t.w, b) }

func (p *Printer) writeTo(w io.Writer, b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	block := p.shown
	p.put(p.erase())
	n, err := w.Write(b)
	if n > 0 {
		p.inLine = b[n-1] != '\n'
	}
	if len(block) > 0 {
		p.put(p.draw(block))
	}
	return n, err
}

// Show replaces the block. Lines are cut to the terminal's width, and as many as its height allows are shown. They must
// be printable: see Printable.
func (p *Printer) Show(lines []Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(p.erase() + p.draw(lines)) // one write, so that nothing flickers
}

// Clear takes the block away.
func (p *Printer) Clear() { p.Show(nil) }

// erase returns what takes the block off the screen. The cursor is and stays at the start of its first line: a terminal
// that becomes narrower wraps lines below it. The first line is erased by itself, because tmux moves what is erased
// together with the first line of the screen to the scrollback.
func (p *Printer) erase() string {
	if len(p.shown) == 0 {
		return ""
	}
	p.shown = nil
	return "\r" + eraseLine + "\r\n" + eraseBelow + fmt.Sprintf(cursorUp, 1)
}

// draw returns what puts lines on the screen and moves the cursor to the start of the first. Lines do not wrap, even if
// the terminal became narrower a moment ago.
func (p *Printer) draw(lines []Line) string {
	width, height := p.size()
	lines = lines[:min(len(lines), max(1, height-1))]
	cut, painted := make([]Line, len(lines)), make([]string, len(lines))
	for i, line := range lines {
		// one less: the last column makes some terminals wrap
		cut[i] = Line{human.CutEnd(line.Text, max(1, width-1)), line.Style}
		painted[i] = cut[i].Text
		if p.colors {
			painted[i] = line.Style.paint(cut[i].Text)
		}
	}
	p.shown = cut
	start := ""
	if p.inLine && len(cut) > 0 {
		start, p.inLine = "\r\n", false
	}
	if len(cut) == 0 {
		return ""
	}
	end := "\r"
	if len(cut) > 1 {
		end += fmt.Sprintf(cursorUp, len(cut)-1)
	}
	return start + noWrap + strings.Join(painted, "\r\n") + wrap + end
}

func (p *Printer) put(s string) {
	if s == "" || p.broken != nil {
		return
	}
	_, p.broken = io.WriteString(p.out, s)
}
