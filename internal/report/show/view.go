package show

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// The intervals at which a job shows itself, unless options say otherwise.
const (
	ViewEvery   = 250 * time.Millisecond
	StatusEvery = time.Second
	LogEvery    = 5 * time.Minute // as Time Machine does
)

// shownPaths is how many current files the view lists.
const shownPaths = 3

// Start runs one of the Run methods and functions below in a goroutine. The returned function ends it and waits for its
// last output; it may be called more than once.
func Start(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Resized returns a channel that receives a signal when the terminal changes its size, until stop is called.
func Resized() (resized <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}

// RunView keeps a progress view on the terminal until ctx ends, then takes it away. It is redrawn every so often, and at
// once when resized receives a signal.
func RunView(ctx context.Context, l *report.Ledger, p *Printer, every time.Duration, resized <-chan os.Signal) {
	defer p.Clear()
	var m report.Meter
	repeat(ctx, every, resized, func() {
		t := l.Snapshot()
		s := m.Observe(&t)
		width, height := p.size()
		p.Show(viewLines(&t, s, l.CurrentPaths(), width-1, height-1))
	})
}

// viewLines lays the view out for a terminal.
func viewLines(t *report.Totals, s report.Speeds, paths []string, width, height int) []Line {
	p := t.Progress()
	head := []string{t.Phase.String()}
	objects, size := human.Count(p.Objects)+" "+p.Units(), human.Size(p.Bytes)
	switch {
	case p.Known:
		head = append(head, done(p))
		objects = fmt.Sprintf("%s of %s%s %s", human.Count(p.Objects), tilde(p), human.Count(p.ObjectsTotal), p.Units())
		size = fmt.Sprintf("%s of %s%s", human.Size(p.Bytes), tilde(p), human.Size(p.BytesTotal))
	case p.Growing:
		head = append(head, done(p))
		objects = fmt.Sprintf("%s of at least %s %s", human.Count(p.Objects), human.Count(p.ObjectsTotal), p.Units())
		size = fmt.Sprintf("%s of at least %s (still counting)", human.Size(p.Bytes), human.Size(p.BytesTotal))
	}
	if s.Left >= 0 {
		head = append(head, left(p, s))
	}
	head = append(head, human.Clocked(t.Elapsed)+" elapsed")
	lines := []Line{{fit(width, head), Bold}}
	plain := func(parts ...string) { lines = append(lines, Line{fit(width, parts), Plain}) }
	switch {
	case t.Counts():
		plain(objects, human.Items(s.Items)+" now", human.Items(s.ItemsAverage)+" on average")
		plain(append([]string{size}, t.Details()...)...)
		plain(t.Moved()+" "+human.Size(p.Moved), human.Speed(s.Bytes)+" now", human.Speed(s.BytesAverage)+" on average")
	case len(t.Details()) > 0:
		plain(t.Details()...)
	}
	if words := doing(t, s); words != "" {
		lines = append(lines, Line{human.CutEnd(words, width), Plain})
	}
	for _, line := range yieldingNow(t, s, width) {
		lines = append(lines, Line{human.CutEnd(line, width), Yellow})
	}
	for _, path := range paths[:min(len(paths), shownPaths)] {
		lines = append(lines, Line{human.CutMiddle("  "+human.Printable(path), width), Plain})
	}
	return lines[:min(len(lines), max(1, height))]
}

// tilde marks an estimate.
func tilde(p report.Progress) string {
	if p.Exact {
		return ""
	}
	return "~"
}

// done is the part that is done: "~41.2 % done", "at most 60.0 % done".
func done(p report.Progress) string {
	if p.Growing {
		return "at most " + human.Percent(p.Ratio()) + " done"
	}
	return tilde(p) + human.Percent(p.Ratio()) + " done"
}

// left is the estimate of the time left.
func left(p report.Progress, s report.Speeds) string {
	if p.Growing {
		return "more than " + human.About(s.Left) + " left"
	}
	return "about " + human.About(s.Left) + " left"
}

// doing says in words what the job does and what it waits for.
func doing(t *report.Totals, s report.Speeds) string {
	wait := map[report.Resource]string{
		report.Finding:    "looking for what changed; mostly waiting for names and attributes of files",
		report.Reading:    "reading files; mostly waiting for the disk they are on",
		report.Computing:  "hashing and compressing; the processors are the limit",
		report.Repository: "storing data; mostly waiting for the repository",
		report.Writing:    "writing files; mostly waiting for the disk they are on",
		report.Memory:     "waiting mostly for memory; --memory allows more",

		report.TransferLimit: "transferring data" + limited(t.Limits),
	}
	if t.Job != report.Backup {
		wait[report.Finding] = "looking for what there is to do"
		wait[report.Computing] = "decrypting and unpacking; the processors are the limit"
		wait[report.Repository] = "reading the repository, and mostly waiting for it"
	}
	return wait[s.Limit]
}

// fit joins as many parts as the width allows, so that no number is ever cut in two.
func fit(width int, parts []string) string {
	line := parts[0]
	for _, part := range parts[1:] {
		if human.Columns(line)+2+human.Columns(part) > width {
			break
		}
		line += ", " + part
	}
	return human.CutEnd(line, width)
}

// repeat calls step every so often, and at each signal, until ctx ends.
func repeat(ctx context.Context, every time.Duration, also <-chan os.Signal, step func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-also:
			step()
		case <-tick.C:
			step()
		}
	}
}
