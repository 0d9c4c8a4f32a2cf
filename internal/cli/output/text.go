package output

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
)

// TextOptions say how much is told to people.
type TextOptions struct {
	Quiet    bool
	Verbose  int
	Interval time.Duration // between two lines of progress where there is no terminal; 0: no lines
	Term     string        // the environment's TERM
}

// Text prints for people.
type Text struct {
	out, err io.Writer
	screen   *show.Printer // nil: standard error is no terminal
	opt      TextOptions
}

// NewText returns a printer on standard output and standard error. If the latter is a terminal, progress is shown there,
// and what goes to a terminal on out scrolls above it.
func NewText(out, err io.Writer, opt TextOptions) *Text {
	t := &Text{out: out, err: err, opt: opt}
	if f, ok := err.(*os.File); ok && show.IsTerminal(f, opt.Term) {
		t.screen = show.NewPrinter(f, show.TerminalSize(f))
		t.err = t.screen
		if o, ok := out.(*os.File); ok && show.IsTerminal(o, opt.Term) {
			t.out = t.screen.Through(o)
		}
	}
	return t
}

// Print writes r in one piece, so that nothing gets between its lines.
func (t *Text) Print(r Record) error {
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		return err
	}
	if _, err := t.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Tell prints r unless the user wants quiet.
func (t *Text) Tell(r Record) error {
	if t.opt.Quiet {
		return nil
	}
	return t.Print(r)
}

// Note writes a line to standard error unless the user wants quiet.
func (t *Text) Note(text string) {
	if !t.opt.Quiet {
		fmt.Fprintln(t.err, human.Harmless(address.Mask(text)))
	}
}

// Show writes a block to standard error.
func (t *Text) Show(text string) { fmt.Fprint(t.err, human.Harmless(address.Mask(text))) }

// Watch shows a progress view on a terminal, else a line of progress now and then. Failures are written as they happen;
// remarks, of which there may be one per file, only on demand: the end of the job sums them up.
func (t *Text) Watch(ctx context.Context, l *report.Ledger) func() {
	l.OnIssue(func(i report.Issue) {
		if i.Severity == report.Failure || t.opt.Verbose > 0 {
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
		return show.Start(ctx, func(ctx context.Context) { show.RunView(ctx, l, t.screen, show.ViewEvery) })
	case t.opt.Interval > 0:
		stamp := func() string { return time.Now().Format("2006-01-02 15:04:05 ") }
		return show.Start(ctx, func(ctx context.Context) { show.RunLog(ctx, l, t.err, t.opt.Interval, stamp) })
	}
	return func() {}
}

// Fail writes the one line that a command ends with.
func (t *Text) Fail(_ int, text string) {
	fmt.Fprintf(t.err, "tidemark: %s\n", human.Harmless(address.Mask(text)))
}
