package show

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// example is a run with round numbers. Each figure of the report below is worked out here by hand:
//
//	chunking saw 40 GiB and found 10 GiB new:          deduplication reduction  1 - 10/40      = 75 %
//	new data and trees are 10 + 2.5 = 12.5 GiB processed, 5 GiB sent: compressed by 1 - 5/12.5 = 60 %
//	100 GiB inspected, 5 GiB sent:                     total data reduction     1 - 5/100      = 95 %
//	5 GiB = 5120 MiB in 256 s of storing by all workers: network rate                          = 20 MiB/s
//	5120 MiB in 512 s = 8 min 32 s elapsed:            aggregate rate                          = 10 MiB/s
//	1 024 000 objects in 512 s:                                                                 2000 /s
//	workers: 256 s + 768 s of 1280 s that were not idle are about reading:                     = 80 %
func example() *report.Totals {
	const gib = 1 << 30
	t := &report.Totals{Phase: report.Done, Elapsed: 512 * time.Second}
	t.Objects = report.ObjectsOf[uint64]{
		Inspected: 1024000, BackedUp: 2000, Updated: 300, Unchanged: 1021688, Expired: 40, Failed: 12,
		Encrypted: 2300, Deduplicated: 1900, Grew: 5, Retries: 7, Excluded: 90, Changing: 1,
	}
	t.Files = report.ComparedOf[uint64]{New: 1500, Changed: 500, Unmodified: 900000}
	t.Dirs = report.ComparedOf[uint64]{New: 10, Changed: 20, Unmodified: 100000}
	t.Others = report.ComparedOf[uint64]{Unmodified: 21958}
	t.Bytes = report.BytesOf[uint64]{
		Inspected: 100 * gib, Read: 41 * gib, Processed: 12*gib + gib/2, BeforeDedup: 40 * gib, AfterDedup: 10 * gib,
		Trees: 2*gib + gib/2, Stored: 5*gib - 1<<20, Transferred: 5 * gib,
	}
	t.Blobs.New, t.Blobs.Known = 80000, 240000
	t.Trees.New, t.Trees.Reused = 30, 100000
	t.Stages[report.Read] = 256 * time.Second
	t.Stages[report.WaitRead] = 768 * time.Second
	t.Stages[report.Store] = 256 * time.Second
	t.Stages[report.Idle] = 640 * time.Second
	t.Phases[report.Opening] = 64 * time.Second
	t.Phases[report.Scanning] = 448 * time.Second
	t.Failures = 12
	return t
}

// TestSessionReport compares with a file that was written by hand from example's figures.
func TestSessionReport(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "session.txt"))
	require.NoError(t, err)
	var b Page
	WriteSession(&b, example())
	require.Equal(t, string(want), b.String())
}

func TestSessionReportOfNothing(t *testing.T) {
	for _, job := range []report.Kind{report.Backup, report.Restore, report.Check} {
		var b Page
		WriteSession(&b, &report.Totals{Job: job})
		require.Contains(t, b.String(), "Network data transfer rate:")
		require.NotContains(t, b.String(), "NaN")
		require.NotContains(t, b.String(), "Bottleneck")
		require.NotContains(t, b.String(), "Where the time")
	}
}

func TestSessionReportOfRestoreAndCheck(t *testing.T) {
	restore := &report.Totals{Job: report.Restore, Elapsed: 100 * time.Second, Notes: 3}
	restore.Objects.Restored, restore.Objects.Kept, restore.Bytes.Written = 1000, 20, 2000<<20
	restore.Bytes.Fetched = 1000 << 20
	restore.Stages[report.Fetch] = 200 * time.Second
	restore.Stages[report.Write] = 600 * time.Second
	var b Page
	WriteSession(&b, restore)
	require.Equal(t, `Total number of objects restored:              1,000
Total number of objects left as they were:        20
Total number of objects deleted:                   0
Total number of objects failed:                    0
Total number of remarks:                           3
Total number of bytes restored:                 1.95 GiB
Total number of bytes transferred:           1000.00 MiB
Data transfer time:                           200.00 s
Network data transfer rate:                     5.00 MiB/s
Aggregate data transfer rate:                  10.00 MiB/s
Elapsed processing time:                    00:01:40

Where the time of the workers went:
  fetching                               200.00 s   25.0 %
  writing files                          600.00 s   75.0 %
  total                                  800.00 s  100.0 %

Bottleneck: writing to the target. 75 % of the workers' time was spent on it or waiting for it.
`, b.String())

	check := &report.Totals{Job: report.Check, Failures: 2}
	check.Objects.Verified, check.Objects.Damaged, check.Bytes.Verified = 98, 2, 1<<30
	b.Reset()
	WriteSession(&b, check)
	require.Contains(t, b.String(), "Total number of objects damaged:           2\n")
	require.Contains(t, b.String(), "Total number of bytes verified:         1.00 GiB\n")
}

func TestSessionReportNamesTheBusyStage(t *testing.T) {
	totals := &report.Totals{}
	totals.Stages[report.Compress], totals.Stages[report.Chunk] = 3*time.Second, time.Second
	require.Equal(t, "Bottleneck: the processor, mostly compressing. 100 % of the workers' time was spent on it or "+
		"waiting for it.", Bottleneck(totals))
}

func TestTimesAddUpHoweverShort(t *testing.T) {
	totals := &report.Totals{}
	totals.Stages[report.Scan], totals.Stages[report.Read] = 2*time.Millisecond, 2*time.Millisecond
	totals.Stages[report.Idle] = 1
	var b Page
	WriteSession(&b, totals)
	require.Contains(t, b.String(), "  scanning                                 0.00 s   50.0 %\n"+
		"  reading                                  0.00 s   50.0 %\n")
	require.NotContains(t, b.String(), "idle")
}

func TestLogLine(t *testing.T) {
	totals := &report.Totals{Phase: report.Scanning, Expected: report.Expected{Objects: 1000, Bytes: 1000}}
	totals.Objects.Inspected, totals.Bytes.Inspected = 500, 412
	s := report.Speeds{
		Bytes: 72.32e6, BytesAverage: 17.91e6, Items: 323.87, ItemsAverage: 367.99, Left: 12 * time.Minute,
		Limit: report.Reading,
	}
	require.Equal(t, "72.32 MB/s, avg: 17.91 MB/s, 323.87 items/s, avg: 367.99 items/s; ~41.2 % done, about 12 min left; "+
		"waiting mostly for: reading", LogLine(totals, s, 0))
	totals.Expected, totals.Failures, totals.Phase = report.Expected{}, 1, report.Uploading
	require.Equal(t, "72.32 MB/s, avg: 17.91 MB/s, 323.87 items/s, avg: 367.99 items/s; waiting for uploads; 1 failure; "+
		"waiting mostly for: reading", LogLine(totals, report.Speeds{
		Bytes: s.Bytes, BytesAverage: s.BytesAverage, Items: s.Items, ItemsAverage: s.ItemsAverage, Left: -1,
		Limit: report.Reading,
	}, 0))
}

func TestRunLogWritesEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := report.New(time.Now)
		l.Phase(report.Scanning)
		var b strings.Builder
		stop := Start(t.Context(), func(ctx context.Context) {
			RunLog(ctx, l, &b, 5*time.Minute, func() string { return time.Now().UTC().Format("15:04 ") })
		})
		worker := l.Worker("reader")
		worker.Enter(report.Read)
		time.Sleep(500 * time.Millisecond) // so that work never falls on the instant at which the log looks
		for range 16 * 60 {                // 16 minutes at 2 MB and 10 items a second
			l.Bytes.Read.Add(2e6)
			l.Objects.Inspected.Add(10)
			time.Sleep(time.Second)
		}
		stop()
		stop()
		line := "2.00 MB/s, avg: 2.00 MB/s, 10.00 items/s, avg: 10.00 items/s; waiting mostly for: reading\n"
		require.Equal(t, "00:05 "+line+"00:10 "+line+"00:15 "+line, b.String())
	})
}

func TestRunViewShowsAndClears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := report.New(time.Now)
		l.Phase(report.Scanning)
		l.Expect(report.Expected{Objects: 2000, Bytes: 2000})
		s := &screen{t: t, width: 80}
		p := NewPrinter(s, fixed(80, 24), false)
		stop := Start(t.Context(), func(ctx context.Context) { RunView(ctx, l, p, ViewEvery, false) })
		w := l.Worker("reader")
		w.Enter(report.WaitStore)
		w.Current(func() string { return "/home/user/" + strings.Repeat("long/", 30) + "name\n" })
		l.Fail("/x", "open", errors.New("no"))
		l.Objects.Inspected.Add(1000)
		l.Bytes.Inspected.Add(1000)
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, `backing up, ~50.0 % done, 00:00:10 elapsed
1,000 of ~2,000 items, 0.00 items/s now, 100.00 items/s on average
1000 B of ~1.95 KiB, new 0 B, sent 0 B, 1 failure
read 0 B, 0 B/s now, 0 B/s on average
storing data; mostly waiting for the repository
  /home/user/long/long/lon…ong/long/long/long/long/long/long/long/long/name\x0a`, s.text())
		stop()
		require.Empty(t, s.text())
	})
}

func TestViewFitsEveryTerminal(t *testing.T) {
	totals := example()
	totals.Expected = report.Expected{Objects: math.MaxUint64, Bytes: math.MaxUint64}
	totals.Phase, totals.Notes = report.Finishing, math.MaxUint64
	totals.Gates = gated().Gates
	speeds := report.Speeds{Bytes: 1e18, BytesAverage: 1e18, Items: 1e9, ItemsAverage: 1e9, Left: 400 * 24 * time.Hour,
		Limit: report.Repository, Stalled: []float64{1, 0.5}}
	paths := []string{strings.Repeat("日本", 300), "/b", "/c", "/d"}
	for _, width := range []int{1, 2, 3, 7, 20, 40, 79, 80, 120, 200} {
		for _, height := range []int{0, 1, 3, 30} {
			lines := viewLines(totals, speeds, paths, width, height)
			require.LessOrEqual(t, len(lines), max(1, height))
			for _, line := range lines {
				require.LessOrEqual(t, human.Columns(line.Text), width, "%q", line)
			}
		}
	}
	require.Len(t, viewLines(totals, speeds, paths, 200, 30), 6+shownPaths)
}

func texts(lines []Line) (all []string) {
	for _, line := range lines {
		all = append(all, line.Text)
	}
	return all
}

func TestIsTerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	require.False(t, IsTerminal(f, "xterm"))
	w, h := TerminalSize(f)()
	require.Equal(t, [2]int{80, 24}, [2]int{w, h})
}

// A prune shows what a step counts; where nothing is counted there are no zeros to wonder about.
func TestViewOfAPrune(t *testing.T) {
	totals := &report.Totals{Job: report.Prune, Phase: report.Repacking, Elapsed: 90 * time.Second}
	totals.Bytes.Fetched = 200 << 20
	totals.Step = report.StepTotals{Number: 4, Since: 80 * time.Second, Done: 2, Moved: 33 << 20,
		Course: report.Course{Unit: "packs", Units: 30, Bytes: 330 << 20, Exact: true}}
	require.Equal(t, []string{
		"repacking half-empty packs, 10.0 % done, 00:01:30 elapsed",
		"2 of 30 packs, 0.00 items/s now, 0.00 items/s on average",
		"33.00 MiB of 330.00 MiB, fetched 200.00 MiB",
		"repacked 33.00 MiB, 0 B/s now, 0 B/s on average",
	}, texts(viewLines(totals, report.Speeds{Left: -1}, nil, 79, 23)))
	require.Contains(t, LogLine(totals, report.Speeds{Left: -1}, 0), "; 10.0 % done; repacking half-empty packs")

	totals.Phase, totals.Step = report.Marking, report.StepTotals{}
	require.Equal(t, []string{"marking unneeded packs, 00:01:30 elapsed", "fetched 200.00 MiB"},
		texts(viewLines(totals, report.Speeds{Left: -1}, nil, 79, 23)))
	require.Equal(t, "00:01:30 elapsed; marking unneeded packs", LogLine(totals, report.Speeds{Left: -1}, 0))
}
