package show

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// The intervals at which a job shows itself, unless options say otherwise.
const (
	ViewEvery   = 250 * time.Millisecond
	StatusEvery = time.Second
)

// shownPaths is how many current files the view lists.
const shownPaths = 3

// Start runs one of the Run methods and functions below in a goroutine. The returned function ends it and waits for its
// last output; it may be called more than once.
func Start(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// RunView keeps a progress view on the terminal until ctx ends, then takes it away. It is redrawn as Observe says.
func RunView(ctx context.Context, l *report.Ledger, p *Printer, every time.Duration, resizes bool) {
	defer p.Clear()
	Observe(ctx, l, every, resizes, func(t *report.Totals, s report.Speeds) {
		width, height := p.size()
		p.Show(viewLines(t, s, l.CurrentPaths(), width-1, height-1))
	})
}

// Observe calls show with the figures of a job as Repeat does.
func Observe(ctx context.Context, l *report.Ledger, every time.Duration, resizes bool,
	show func(*report.Totals, report.Speeds)) {
	var m report.Meter
	Repeat(ctx, every, resizes, func() {
		t := l.Snapshot()
		show(&t, m.Observe(&t))
	})
}

// view is what the progress view shows of a job: of this process from its ledger, or of another from its status, which
// has only part of the totals.
type view struct {
	*report.Totals
	progress report.Progress
	speeds   report.Speeds
	details  []string // further figures
	unknown  struct{ now, average bool }
}

// rates formats the present and the average speed, as far as they are known.
func (v *view) rates(format func(float64) string, now, average float64) (parts []string) {
	if !v.unknown.now {
		parts = append(parts, format(now)+" now")
	}
	if !v.unknown.average {
		parts = append(parts, format(average)+" on average")
	}
	return parts
}

// viewLines lays the view out for a terminal.
func viewLines(t *report.Totals, s report.Speeds, paths []string, width, height int) []Line {
	lines := (&view{Totals: t, progress: t.Progress(), speeds: s, details: t.Details()}).lines(width, paths)
	return lines[:min(len(lines), max(1, height))]
}

// head is the phase, how much of it is done, and the time.
func (v *view) head() []string {
	p, head := v.progress, []string{v.Phase.String()}
	if p.Known || p.Growing {
		head = append(head, done(p))
	}
	if v.speeds.Left >= 0 {
		head = append(head, left(p, v.speeds))
	}
	return append(head, human.Clocked(v.Elapsed)+" elapsed")
}

// lines lays the view out, with some of the paths at which the job is.
func (v *view) lines(width int, paths []string) []Line {
	p, s := v.progress, v.speeds
	objects, size := human.Count(p.Objects)+" "+p.Units(), human.Size(p.Bytes)
	switch {
	case p.Known:
		objects = fmt.Sprintf("%s of %s%s %s", human.Count(p.Objects), tilde(p), human.Count(p.ObjectsTotal), p.Units())
		size = fmt.Sprintf("%s of %s%s", human.Size(p.Bytes), tilde(p), human.Size(p.BytesTotal))
	case p.Growing:
		objects = fmt.Sprintf("%s of at least %s %s", human.Count(p.Objects), human.Count(p.ObjectsTotal), p.Units())
		size = fmt.Sprintf("%s of at least %s (still counting)", human.Size(p.Bytes), human.Size(p.BytesTotal))
	}
	lines := []Line{{fit(width, v.head()), Bold}}
	plain := func(parts ...string) { lines = append(lines, Line{fit(width, parts), Plain}) }
	switch {
	case v.Counts():
		plain(append([]string{objects}, v.rates(human.Items, s.Items, s.ItemsAverage)...)...)
		plain(append([]string{size}, v.details...)...)
		rates := v.rates(human.Speed, s.Bytes, s.BytesAverage)
		plain(append([]string{v.Moved() + " " + human.Size(p.Moved)}, rates...)...)
	case len(v.details) > 0:
		plain(v.details...)
	}
	if words := v.doing(); words != "" {
		lines = append(lines, Line{human.CutEnd(words, width), Plain})
	}
	for _, line := range v.yielding(width) {
		lines = append(lines, Line{human.CutEnd(line, width), Bold})
	}
	for _, path := range paths[:min(len(paths), shownPaths)] {
		lines = append(lines, Line{human.CutMiddle("  "+human.Printable(path), width), Plain})
	}
	return lines
}

// tilde marks an estimate.
func tilde(p report.Progress) string {
	if p.Exact {
		return ""
	}
	return "~"
}

// done is the part that is done: "~41.2 % done", "at most 60.0 % done". A job that still runs has not done all.
func done(p report.Progress) string {
	ratio := min(p.Ratio(), 0.999)
	if p.Growing {
		return "at most " + human.Percent(ratio) + " done"
	}
	return tilde(p) + human.Percent(ratio) + " done"
}

// left is the estimate of the time left.
func left(p report.Progress, s report.Speeds) string {
	if p.Growing {
		return "more than " + human.About(s.Left) + " left"
	}
	return "about " + human.About(s.Left) + " left"
}

// doing says in words what the job does and what it waits for.
func (v *view) doing() string {
	wait := map[report.Resource]string{
		report.Finding:    "looking for what changed; mostly waiting for names and attributes of files",
		report.Reading:    "reading files; mostly waiting for the disk they are on",
		report.Computing:  "hashing and compressing; the processors are the limit",
		report.Repository: "storing data; mostly waiting for the repository",
		report.Writing:    "writing files; mostly waiting for the disk they are on",
		report.Memory:     "waiting mostly for memory; --memory allows more",

		report.TransferLimit: "transferring data" + limited(v.Limits),
		report.Answer:        "the target does not answer, and is tried again: " + human.Harmless(v.Outage.Why),
	}
	if v.Job != report.Backup {
		wait[report.Finding] = "looking for what there is to do"
		wait[report.Computing] = "decrypting and unpacking; the processors are the limit"
		wait[report.Repository] = "reading the repository, and mostly waiting for it"
	}
	return wait[v.speeds.Limit]
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

// Repeat calls step every so often, and on a terminal that resizes at each change of its size, until ctx ends.
func Repeat(ctx context.Context, every time.Duration, resizes bool, step func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	resized := make(chan os.Signal, 1)
	if resizes {
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			step()
		case <-tick.C:
			step()
		}
	}
}
