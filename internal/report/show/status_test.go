package show

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// seenElsewhere is the status of a job as another process receives it.
func seenElsewhere(t *report.Totals, s report.Speeds) *event.Job {
	return &event.Job{PID: 7, Job: t.Job.String(), Status: event.NewStatus(t, s, []string{"/a\x1b\\b"})}
}

func joined(lines []Line) string { return strings.Join(texts(lines), "\n") }

// Another process shows a job in the words of the job's own view; it only lacks the amount of new data.
func TestStatusLinesAreThoseOfTheView(t *testing.T) {
	backup := &report.Totals{Phase: report.Scanning, Elapsed: 100 * time.Second, PID: 7, Failures: 1,
		Expected: report.Expected{Objects: 1000, Bytes: 4 << 20}}
	backup.Objects.Inspected, backup.Bytes.Inspected, backup.Bytes.Wanted, backup.Bytes.Read = 500, 2<<20, 2<<20, 1<<20
	backup.Bytes.Transferred = 1 << 20
	backup.Gates = []report.Gate{{Device: "sda", Medium: "ssd", State: iopolicy.Waiting,
		Current: []report.Process{{PID: 42, Name: "fio"}}}}
	restore := &report.Totals{Job: report.Restore, Phase: report.Restoring, Elapsed: 50 * time.Second,
		Expected: report.Expected{Objects: 10, Bytes: 1 << 20, Exact: true}}
	restore.Objects.Restored, restore.Bytes.Restored, restore.Bytes.Fetched = 5, 1<<19, 1<<18
	growing := &report.Totals{Phase: report.Scanning, Elapsed: 10 * time.Second,
		Expected: report.Expected{Objects: 1000, Bytes: 4 << 20, Growing: true}}
	growing.Objects.Inspected = 10
	for name, totals := range map[string]*report.Totals{"backup": backup, "restore": restore, "growing": growing} {
		totals.PID = 7
		p := totals.Progress()
		s := report.Speeds{Bytes: 3e6, Items: 7, Left: 90 * time.Second,
			Limit: report.Reading, Stalled: make([]float64, len(totals.Gates)),
			BytesAverage: report.PerSecond(p.Moved, totals.Elapsed),
			ItemsAverage: report.PerSecond(p.Objects, totals.Elapsed)}
		want := strings.ReplaceAll(joined(viewLines(totals, s, []string{"/a\x1b\\b"}, 200, 50)), "new 0 B, ", "")
		got := joined(StatusLines(seenElsewhere(totals, s), true, 200))
		require.Equal(t, want, got, name)
		require.NotContains(t, got, "\x1b")
	}
	lines := joined(StatusLines(seenElsewhere(backup, report.Speeds{Bytes: 3e6, Items: 7, Left: -1}), false, 200))
	require.NotContains(t, lines, " now,", "one observation says nothing about the last seconds")
	require.Contains(t, lines, "yielding to fio 42 on sda (ssd), 2.86 MiB/s meanwhile\n"+
		"  to go faster now: tidemark tier set important --pid 7")
	require.Equal(t, "backing up, ~25.0 % done, 00:01:40 elapsed, 2.86 MiB/s now, 10.24 KiB/s on average, "+
		"yielding to fio 42 on sda (ssd), 2.86 MiB/s meanwhile",
		StatusLog(seenElsewhere(backup, report.Speeds{Bytes: 3e6, Left: -1})))
	away := &report.Totals{Phase: report.Uploading, PID: 7, Outage: report.Outage{Why: "nas refuses\x1b connections"}}
	gone := report.Speeds{Limit: report.Answer, Left: -1}
	for _, got := range []string{joined(viewLines(away, gone, nil, 200, 50)),
		joined(StatusLines(seenElsewhere(away, gone), true, 200)), StatusLog(seenElsewhere(away, gone))} {
		require.Contains(t, got, "the target does not answer, and is tried again: nas refuses\\x1b connections")
	}
	require.Empty(t, StatusLines(&event.Job{Job: "run"}, true, 80))
	require.Empty(t, StatusLog(&event.Job{Job: "run"}))
}

// The step of a job may have begun later than the job: it has no average. A phase that counts nothing has no figures.
func TestStatusLinesOfSteps(t *testing.T) {
	prune := &report.Totals{Job: report.Prune, Phase: report.Repacking, Elapsed: 100 * time.Second}
	packs := report.Course{Unit: "packs", Units: 10, Bytes: 1 << 20, Exact: true}
	prune.Step = report.StepTotals{Course: packs, Number: 2, Done: 5, Moved: 1 << 19}
	require.Equal(t, "repacking half-empty packs, 50.0 % done, 00:01:40 elapsed\n5 of 10 packs, 2.00 items/s now\n"+
		"512.00 KiB of 1.00 MiB\nrepacked 512.00 KiB, 1.00 MiB/s now\n"+`  /a\x1b\\b`, joined(StatusLines(
		seenElsewhere(prune, report.Speeds{Bytes: 1 << 20, Items: 2, Left: -1}), false, 200)))
	prune.Phase, prune.Step = report.Listing, report.StepTotals{}
	require.Equal(t, "reading index and lists, 00:01:40 elapsed", joined(StatusLines(
		&event.Job{Job: "prune", Status: event.NewStatus(prune, report.Speeds{Left: -1}, nil)}, false, 200)))
}

func TestEveryWordOfAStatusIsUnderstood(t *testing.T) {
	for p := range len(report.Totals{}.Phases) {
		require.Equal(t, report.Phase(p), named(report.Phase(p).Key(), report.Done, report.Scanning, report.Phase.Key))
	}
	for r := report.Finding; r <= report.Answer; r++ {
		require.Equal(t, r, named(r.String(), report.Answer, report.Nothing, report.Resource.String))
	}
	for _, j := range []report.Kind{report.Backup, report.Restore, report.Check, report.Prune, report.Copy} {
		require.Equal(t, j, named(j.String(), report.Copy, report.Check, report.Kind.String))
	}
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, steps := time.Now(), []time.Duration{}
		done := make(chan struct{})
		stop := Start(t.Context(), func(ctx context.Context) {
			Repeat(ctx, time.Second, false, func() {
				if steps = append(steps, time.Since(start)); len(steps) == 3 {
					close(done)
				}
			})
		})
		<-done
		stop()
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, steps)
	})
}
