package output

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
)

// TextOptions select what is printed.
type TextOptions struct {
	Quiet    bool
	Verbose  int
	Interval time.Duration // between two lines of progress where there is no terminal; 0: no lines
	Term     string        // the environment's TERM
	NoColor  bool          // NO_COLOR is set
}

// Text prints for people.
type Text struct {
	out, err io.Writer
	screen   *show.Printer // nil: standard error is no terminal
	opt      TextOptions
	colors   struct{ out, err bool } // of each stream: a terminal, and colours are wanted
	// width of the terminal of each stream, in columns; 0: there is none
	width struct{ out, err func() int }
}

// NewText returns a printer on standard output and standard error. If the latter is a terminal, progress is shown
// there, and what goes to a terminal on out scrolls above it.
func NewText(out, err io.Writer, opt TextOptions) *Text {
	t := &Text{out: out, err: err, opt: opt}
	t.width.out, t.width.err = func() int { return 0 }, func() int { return 0 }
	o, ok := out.(*os.File)
	outShown := ok && show.IsTerminal(o, opt.Term)
	t.colors.out = outShown && !opt.NoColor
	columns := func(f *os.File) func() int {
		return func() int {
			width, _ := show.TerminalSize(f)()
			return width
		}
	}
	if outShown {
		t.width.out = columns(o)
	}
	if f, ok := err.(*os.File); ok && show.IsTerminal(f, opt.Term) {
		t.colors.err = !opt.NoColor
		t.width.err = columns(f)
		t.screen = show.NewPrinter(f, show.TerminalSize(f), t.colors.err)
		t.err = t.screen
		if outShown {
			t.out = t.screen.Through(o)
		}
	}
	return t
}

// page returns a page for standard error.
func (t *Text) page() *show.Page { return &show.Page{Colors: t.colors.err, Width: t.width.err()} }

// Print writes r in one piece, so that nothing gets between its lines.
func (t *Text) Print(r Record) error {
	b := show.Page{Colors: t.colors.out, Width: t.width.out()}
	if err := r.Text(&b); err != nil {
		return err
	}
	if _, err := t.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Report prints r, or only its Brief if the user wants quiet.
func (t *Text) Report(r Record) error {
	if !t.opt.Quiet {
		return t.Print(r)
	}
	if short, ok := r.(Brief); ok && short.Brief() != "" {
		if _, err := fmt.Fprintln(t.out, short.Brief()); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	return nil
}

// Note writes a line to standard error unless the user wants quiet.
func (t *Text) Note(text string) {
	if !t.opt.Quiet {
		text = show.Prose(t.page(), human.Harmless(address.Mask(text)))
		if strings.HasPrefix(text, "warning:") {
			text = show.Strong(t.page(), text)
		}
		fmt.Fprintln(t.err, text)
	}
}

// Show writes a block to standard error.
func (t *Text) Show(text string) { fmt.Fprint(t.err, human.Harmless(address.Mask(text))) }

// Watch shows a progress view on a terminal, otherwise a line of progress now and then. Failures are written as they
// happen. Remarks, up to one per file, are written only with --verbose: the end of the job counts them.
func (t *Text) Watch(ctx context.Context, l *report.Ledger) func() {
	l.OnIssue(func(i report.Issue) {
		switch {
		case i.Severity == report.Failure:
			fmt.Fprintln(t.err, show.Bad(t.page(), show.Prose(t.page(), i.String())))
		case t.opt.Verbose > 0:
			fmt.Fprintln(t.err, i.String())
		}
	})
	signals, cancel := context.WithCancel(ctx)
	report.OnSignal(signals, l, t.err)
	stop := t.progress(ctx, l)
	return func() { cancel(); stop() }
}

func (t *Text) progress(ctx context.Context, l *report.Ledger) func() {
	switch {
	case t.opt.Quiet:
	case t.screen != nil:
		resized, forget := show.Resized()
		stop := show.Start(ctx, func(ctx context.Context) { show.RunView(ctx, l, t.screen, show.ViewEvery, resized) })
		return func() { stop(); forget() }
	case t.opt.Interval > 0:
		stamp := func() string { return time.Now().Format("2006-01-02 15:04:05 ") }
		return show.Start(ctx, func(ctx context.Context) { show.RunLog(ctx, l, t.err, t.opt.Interval, stamp) })
	}
	return func() {}
}

// Fail writes the one line that a command ends with.
func (t *Text) Fail(_ int, text string, _ bool) {
	text = show.Prose(t.page(), "tidemark: "+human.Harmless(address.Mask(text)))
	fmt.Fprintln(t.err, show.Bad(t.page(), text))
}
