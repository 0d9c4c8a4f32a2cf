package show

import (
	"context"
	"fmt"
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

// RunView keeps a progress view on the terminal until ctx ends, then takes it away.
func RunView(ctx context.Context, l *report.Ledger, p *Printer, every time.Duration) {
	defer p.Clear()
	var m report.Meter
	repeat(ctx, every, func() {
		t := l.Snapshot()
		s := m.Observe(&t)
		width, height := p.size()
		p.Show(viewLines(&t, s, l.CurrentPaths(), width-1, height-1))
	})
}

// viewLines lays the view out for a terminal.
func viewLines(t *report.Totals, s report.Speeds, paths []string, width, height int) []string {
	p := t.Progress()
	about := ""
	if !t.Expected.Exact && !t.Step.Exact {
		about = "about "
	}
	head := []string{t.Phase.String(), human.Clocked(t.Elapsed)}
	objects, size := human.Count(p.Objects)+" "+p.Units(), human.Size(p.Bytes)
	if p.Known {
		head = append(head, human.Percent(p.Ratio())+" done")
		objects = fmt.Sprintf("%s of %s%s %s", human.Count(p.Objects), about, human.Count(p.ObjectsTotal), p.Units())
		size = fmt.Sprintf("%s of %s%s", human.Size(p.Bytes), about, human.Size(p.BytesTotal))
	}
	if s.Left >= 0 {
		head = append(head, "about "+human.About(s.Left)+" left")
	}
	rates := []string{human.Speed(s.Bytes) + " now", human.Speed(s.BytesAverage) + " on average"}
	lines := []string{fit(width, head)}
	switch {
	case t.Counts():
		lines = append(lines,
			fit(width, []string{objects, human.Items(s.Items) + " now", human.Items(s.ItemsAverage) + " on average"}),
			fit(width, append([]string{size}, t.Details()...)),
			fit(width, append([]string{t.Moved() + " " + human.Size(p.Moved)}, rates...)))
	case len(t.Details()) > 0:
		lines = append(lines, fit(width, t.Details()))
	}
	if s.WaitingFor != "" {
		lines = append(lines, fit(width, []string{"waiting mostly for: " + s.WaitingFor}))
	}
	for _, line := range WaitingForOthers(t) {
		lines = append(lines, human.CutEnd(line, width))
	}
	for _, path := range paths[:min(len(paths), shownPaths)] {
		lines = append(lines, human.CutMiddle("  "+human.Printable(path), width))
	}
	return lines[:min(len(lines), max(1, height))]
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

// repeat calls step every so often until ctx ends.
func repeat(ctx context.Context, every time.Duration, step func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			step()
		}
	}
}
