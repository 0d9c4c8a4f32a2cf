package show

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// gated is a run of 49 s that slept for fio on sda: 49 - 37 = 12 s without, and a window was open half of the time.
func gated() *report.Totals {
	return &report.Totals{
		Elapsed:  49 * time.Second,
		Policies: []report.PolicySpan{{Policy: "throttle"}, {Policy: "important", Since: 32}},
		Gates: []report.Gate{
			{
				Device: "sda", Medium: "ssd", State: iopolicy.Waiting, Charged: 1480,
				Asleep: [iopolicy.Tiers]time.Duration{2: 500 * time.Millisecond, 3: 74 * time.Second}, Held: 37 * time.Second,
				Engaged: 24500 * time.Millisecond, Windows: [iopolicy.Tiers]uint64{0: 124, 2: 1},
				Blamed: []report.Process{{PID: 1234, Name: "fio", Bytes: 12 << 20}, {PID: 7, Name: "a\nb", Bytes: 512}},
			},
			{Device: "sdb", Medium: "hdd"},
			{Device: "fuse.x", Notes: []string{"The device behind fuse.x cannot be told."}},
		},
	}
}

const gatedReport = `
Bottleneck: yielding to fio 1234 and 1 more on sda (ssd). The job was stalled for 76 % of the elapsed time.

I/O policy: throttle, then important after 32 s.

Yielding on sda (ssd):
  asleep                                  37.00 s   75.5 %
  windows open                            24.50 s   50.0 %
  windows opened by tier 0                  124
  windows opened by tier 2                    1
  operations at the device                1,480
  used by                             12.00 MiB  fio (1234)
  used by                                 512 B  a\x0ab (7)

Yielding on fuse.x: never.
  The device behind fuse.x cannot be told.

Without yielding the job would have taken about 12 s instead of 49 s.
`

func TestSessionReportIncludesGates(t *testing.T) {
	for _, job := range []report.Kind{report.Backup, report.Restore, report.Check} {
		totals := gated()
		totals.Job = job
		var b Page
		WriteSession(&b, totals)
		require.True(t, strings.HasSuffix(b.String(), gatedReport), b.String())

		b.Reset()
		WriteUndisturbed(&b, totals)
		require.Empty(t, b.String())
	}
}

// The report has what was measured beside what was calculated; what was not measured has no line.
func TestSessionReportNamesWhatWasMeasured(t *testing.T) {
	totals := gated()
	totals.Gates[0].Impact = iopolicy.Impact{Max: 0.05, Turns: 3 * time.Second, Lost: time.Second, Rate: 1000,
		Harm: 0.04, Calculated: 0.3, Measured: 0.04}
	var b Page
	WriteSession(&b, totals)
	require.Contains(t, b.String(),
		"  Measured last: others lost at most 4.0 % of that device time, 30.0 % by calculation.\n")
	totals.Gates[0].Measured = 0
	b.Reset()
	WriteSession(&b, totals)
	require.NotContains(t, b.String(), "Measured")
}

// A job that slept for nearly all of its time: the rest is no basis for an estimate.
func TestNoEstimateOfNothing(t *testing.T) {
	totals := gated()
	totals.Gates[0].Held = totals.Elapsed - time.Second
	var b Page
	WriteSession(&b, totals)
	require.Contains(t, b.String(), "The job was stalled for 98 % of the elapsed time")
	require.NotContains(t, b.String(), "Without yielding")
}

func TestUndisturbed(t *testing.T) {
	totals := gated()
	totals.Gates = []report.Gate{{Device: "sda", Medium: "ssd"}, {Device: "sdb", Windows: [iopolicy.Tiers]uint64{4}}}
	var b Page
	WriteSession(&b, totals)
	require.NotContains(t, b.String(), "policy")
	require.NotContains(t, b.String(), "ielding")

	b.Reset()
	WriteUndisturbed(&b, totals)
	require.Equal(t, "I/O policy: throttle, then important after 32 s. The job never yielded on sda (ssd), sdb.\n",
		b.String())
	totals.Gates[1].Engaged = 4900 * time.Millisecond
	b.Reset()
	WriteSession(&b, totals)
	require.NotContains(t, b.String(), "windows", "nobody slept")
	b.Reset()
	WriteUndisturbed(&b, totals)
	require.Equal(t, `I/O policy: throttle, then important after 32 s. The job never yielded on sda (ssd), sdb.
Others used sdb, and the job did not sleep:
  windows open                             4.90 s   10.0 %
  windows opened by tier 0                    4
`, b.String())
	totals.Gates[0].Held = 1
	b.Reset()
	WriteUndisturbed(&b, totals)
	require.True(t, strings.HasPrefix(b.String(), "Others used sdb, "), b.String())
	totals.Gates[0].Held, totals.Gates[1].Engaged = 0, 0
	totals.Policies = nil
	b.Reset()
	WriteUndisturbed(&b, totals)
	require.Equal(t, "The job never yielded on sda (ssd), sdb.\n", b.String())
	totals.Gates = nil
	b.Reset()
	WriteUndisturbed(&b, totals)
	require.Empty(t, b.String())
}

func TestViewReportsWhyItIsSlowNow(t *testing.T) {
	totals := gated()
	totals.PID = 4321
	totals.Gates[0].Current = totals.Gates[0].Blamed
	now := report.Speeds{Left: -1, Limit: report.Reading, Bytes: 4 << 20, Stalled: []float64{0.62, 0, 0}}
	lines := viewLines(totals, now, []string{"/x"}, 100, 30)
	require.Equal(t, []string{
		"reading files; mostly waiting for the disk they are on",
		"yielding to fio 1234 and 1 more on sda (ssd), asleep 62 %, 4.00 MiB/s meanwhile",
		"  to go faster now: tidemark tier set important --pid 4321",
		"  /x",
	}, texts(lines[4:]))
	require.Equal(t, Bold, lines[5].Style)
	totals.Gates[0].Current = nil // it has ended
	require.Contains(t, joined(viewLines(totals, now, nil, 100, 30)), "yielding to other programs on sda")
	totals.PID = 0 // no socket
	require.NotContains(t, strings.Join(texts(viewLines(totals, now, nil, 100, 30)), "\n"), "faster")
	totals.Gates[0].State = iopolicy.Disengaged
	require.NotContains(t, strings.Join(texts(viewLines(totals, now, nil, 100, 30)), "\n"), "yielding")
}

// A transfer limit is named, with its rate, in place of the stage in which the workers wait for it.
func TestViewNamesTheTransferLimit(t *testing.T) {
	totals := &report.Totals{Limits: report.Limits{Upload: 1 << 20}}
	lines := texts(viewLines(totals, report.Speeds{Left: -1, Limit: report.TransferLimit}, nil, 100, 30))
	require.Contains(t, lines, "transferring data; limited to 1.00 MiB/s up")
}

// A line of the log covers the time since the line before: it does not repeat earlier sleep.
func TestLogReportsSleepSinceTheLastLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, l := time.Now(), report.New(time.Now)
		l.Phase(report.Scanning)
		l.Gates(func() []report.Gate { // asleep for the first 90 s
			return []report.Gate{{Device: "sda", Medium: "ssd", Held: min(time.Since(start), 90*time.Second)}}
		})
		var b strings.Builder
		stop := Start(t.Context(), func(ctx context.Context) {
			RunLog(ctx, l, &b, time.Minute, func() string { return "" })
		})
		time.Sleep(3*time.Minute + time.Second/2)
		stop()
		quiet := "0.00 MB/s, avg: 0.00 MB/s, 0.00 items/s, avg: 0.00 items/s"
		require.Equal(t, quiet+"; asleep 100 %, yielding to other programs on sda (ssd)\n"+
			quiet+"; asleep 50 %, yielding to other programs on sda (ssd)\n"+quiet+"\n", b.String())
	})
}
