// Package show writes a report.Ledger for people: the progress view on a terminal, the log lines where there is none, and
// the report at the end of a job. It reads the ledger and adds nothing to it, and it never decides where its output goes.
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
	eraseBelow = "\x1b[J"
	cursorUp   = "\x1b[%dA"
)

// Printer shares a terminal between messages, which scroll, and a block of lines beneath them that changes in place.
// Whatever else is written to the same terminal while the block is shown must go through it: see Write and Through.
type Printer struct {
	mu     sync.Mutex
	out    io.Writer
	size   func() (width, height int)
	shown  []string // the block on the screen
	inLine bool     // without a block: the cursor stands behind a message that did not end its line
	broken error    // of the first failed write to out; nothing is drawn after it
}

// NewPrinter shares the terminal that out writes to. size tells its present width and height in characters.
func NewPrinter(out io.Writer, size func() (width, height int)) *Printer {
	return &Printer{out: out, size: size}
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
func (p *Printer) Show(lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(p.erase() + p.draw(lines)) // one write, so that nothing flickers
}

// Clear takes the block away.
func (p *Printer) Clear() { p.Show(nil) }

// erase returns what takes the block off the screen and leaves the cursor at the start of its first line.
func (p *Printer) erase() string {
	if len(p.shown) == 0 {
		return ""
	}
	width, _ := p.size()
	rows := 0
	for _, line := range p.shown {
		// A terminal that has become narrower since has wrapped the line.
		rows += max(1, (human.Columns(line)+width-1)/max(1, width))
	}
	p.shown = nil
	up := ""
	if rows > 1 {
		up = fmt.Sprintf(cursorUp, rows-1)
	}
	return "\r" + up + eraseBelow
}

// draw returns what puts lines on the screen, the cursor staying at the end of the last.
func (p *Printer) draw(lines []string) string {
	width, height := p.size()
	lines = lines[:min(len(lines), max(1, height-1))]
	cut := make([]string, len(lines))
	for i, line := range lines {
		cut[i] = human.CutEnd(line, max(1, width-1)) // one less: the last column makes some terminals wrap
	}
	p.shown = cut
	start := ""
	if p.inLine && len(cut) > 0 {
		start, p.inLine = "\r\n", false
	}
	return start + strings.Join(cut, "\r\n")
}

func (p *Printer) put(s string) {
	if s == "" || p.broken != nil {
		return
	}
	_, p.broken = io.WriteString(p.out, s)
}
