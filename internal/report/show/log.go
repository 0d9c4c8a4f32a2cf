package show

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// RunLog writes a line of progress to w every so often until ctx ends: what there is instead of a view where there is
// no terminal. prefix is put before each line.
func RunLog(ctx context.Context, l *report.Ledger, w io.Writer, every time.Duration, prefix func() string) {
	last := l.Snapshot()
	due := last.Elapsed + every
	Observe(ctx, l, min(every, time.Second), false, func(t *report.Totals, s report.Speeds) {
		if t.Elapsed < due {
			return
		}
		over := t.Elapsed - last.Elapsed // the whole interval, not the last seconds
		s.Limit = report.LimitedBy(t.Stages.Minus(last.Stages), t.Limited-last.Limited, over)
		if t.Outage.Why != "" {
			s.Limit = report.Answer
		}
		since := report.GatesSince(t.Gates, last.Gates)
		last, due = *t, t.Elapsed+every
		t.Gates = since
		fmt.Fprintf(w, "%s%s\n", prefix(), LogLine(t, s, over))
	})
}

// LogLine returns one line of progress: Time Machine's four figures in its format and units, then progress and
// bottleneck. Yielding is reported for the time over which t.Gates were observed.
//
//	72.32 MB/s, avg: 17.91 MB/s, 323.87 items/s, avg: 367.99 items/s; 41.2 % done, about 12 min left; waiting
//
// mostly for: reading
func LogLine(t *report.Totals, s report.Speeds, over time.Duration) string {
	line := fmt.Sprintf("%s, avg: %s, %s, avg: %s", human.Megabytes(s.Bytes), human.Megabytes(s.BytesAverage),
		human.Items(s.Items), human.Items(s.ItemsAverage))
	if !t.Counts() {
		line = human.Clocked(t.Elapsed) + " elapsed"
	}
	if p := t.Progress(); p.Known || p.Growing {
		line += "; " + done(p)
		if s.Left >= 0 {
			line += ", " + left(p, s)
		}
	}
	if t.Phase != report.Scanning && t.Phase != report.Restoring && t.Phase != report.Checking {
		line += "; " + t.Phase.String()
	}
	if t.Failures > 0 {
		line += "; " + human.Plural(t.Failures, "failure")
	}
	if words := s.Limit.String(); words != "" {
		line += "; waiting mostly for: " + words
	}
	return line + yielded(t.Gates, over)
}
