package output

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// TextOptions select what is printed.
type TextOptions struct {
	options.Output        // with an Interval of 0, no lines of progress
	Term           string // the environment's TERM
	NoColor        bool   // NO_COLOR is set
}

// Text prints for people.
type Text struct {
	out, err         io.Writer
	outTerm, errTerm *os.File      // the terminals of both; nil: there is none
	screen           *show.Printer // nil: standard error is no terminal
	opt              TextOptions
}

// NewText returns a printer on standard output and standard error. If the latter is a terminal, progress is shown
// there, and what goes to a terminal on out scrolls above it.
func NewText(out, err io.Writer, opt TextOptions) *Text {
	t := &Text{out: out, err: err, opt: opt}
	t.outTerm, t.errTerm = t.terminal(out), t.terminal(err)
	if t.errTerm != nil {
		t.screen = show.NewPrinter(t.errTerm, show.TerminalSize(t.errTerm), !opt.NoColor)
		t.err = t.screen
		if t.outTerm != nil {
			t.out = t.screen.Through(t.outTerm)
		}
	}
	return t
}

func (t *Text) terminal(w io.Writer) *os.File {
	if f, ok := w.(*os.File); ok && show.IsTerminal(f, t.opt.Term) {
		return f
	}
	return nil
}

// page returns a page for a terminal, or for nil.
func (t *Text) page(terminal *os.File) *show.Page {
	if terminal == nil {
		return &show.Page{Full: t.opt.Full}
	}
	width, _ := show.TerminalSize(terminal)()
	return &show.Page{Colors: !t.opt.NoColor, Width: width, Full: t.opt.Full}
}

// line writes text to standard error.
func (t *Text) line(style show.Style, text string) {
	p := t.page(t.errTerm)
	fmt.Fprintln(t.err, p.Styled(style, p.Prose(text)))
}

// Print writes r in one piece, so that nothing gets between its lines.
func (t *Text) Print(r Record) error {
	p := t.page(t.outTerm)
	r.Text(p)
	return t.write(p.Bytes())
}

func (t *Text) write(text []byte) error {
	if _, err := t.out.Write(text); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Report prints r. If the user wants quiet, it prints only the ID of the snapshot that a backup saved.
func (t *Text) Report(r Record) error {
	if !t.opt.Quiet {
		return t.Print(r)
	}
	if b, ok := r.(*Backup); ok && !b.ID.IsZero() {
		return t.write([]byte(b.ID.String() + "\n"))
	}
	return nil
}

// Note writes a line to standard error unless the user wants quiet.
func (t *Text) Note(text string) {
	if !t.opt.Quiet {
		style := show.Plain
		if strings.HasPrefix(text, "warning:") {
			style = show.Bold
		}
		t.line(style, human.Harmless(store.Mask(text)))
	}
}

// Show writes a block to standard error.
func (t *Text) Show(text string) { fmt.Fprint(t.err, human.Harmless(store.Mask(text))) }

// Watch shows a progress view on a terminal, otherwise a line of progress now and then. Failures are written as they
// happen. Remarks, up to one per file, are written only with --verbose: the end of the job counts them.
func (t *Text) Watch(ctx context.Context, l *report.Ledger) func() {
	l.OnIssue(func(i report.Issue) {
		switch {
		case !i.Remark:
			t.line(show.Red, i.String())
		case t.opt.Verbose > 0:
			fmt.Fprintln(t.err, i.String())
		}
	})
	silence, stop := report.OnSignal(l, t.err), t.progress(ctx, l)
	return func() { silence(); stop() }
}

func (t *Text) progress(ctx context.Context, l *report.Ledger) func() {
	switch {
	case t.opt.Quiet:
	case t.screen != nil:
		return show.Start(ctx, func(ctx context.Context) { show.RunView(ctx, l, t.screen, show.ViewEvery, true) })
	case t.opt.Interval > 0:
		stamp := func() string { return time.Now().Format("2006-01-02 15:04:05 ") }
		return show.Start(ctx, func(ctx context.Context) { show.RunLog(ctx, l, t.err, t.opt.Interval, stamp) })
	}
	return func() {}
}

// Fail writes the one line that a command ends with.
func (t *Text) Fail(_ int, text string, _ bool) {
	t.line(show.Red, "tidemark: "+human.Harmless(store.Mask(text)))
}
