package report

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run feeds a meter a job that step changes every 250 ms, and returns the last speeds.
func run(m *Meter, t *Totals, d time.Duration, step func(t *Totals)) Speeds {
	var s Speeds
	for end := t.Elapsed + d; t.Elapsed < end; {
		t.Elapsed += 250 * time.Millisecond
		step(t)
		s = m.Observe(t)
	}
	return s
}

func TestSpeeds(t *testing.T) {
	var m Meter
	totals := &Totals{Phase: Scanning}
	s := run(&m, totals, 100*time.Second, func(t *Totals) {
		t.Objects.Inspected += 100
		t.Bytes.Read += 1000
	})
	require.InDelta(t, 400, s.Items, 1e-6)
	require.InDelta(t, 4000, s.Bytes, 1e-6)
	require.InDelta(t, 400, s.ItemsAverage, 1e-6)
	require.Negative(t, s.Left, "without an idea of the whole there is no estimate")

	// "now" forgets after rateWindow, the average does not.
	s = run(&m, totals, rateWindow, func(*Totals) {})
	require.Zero(t, s.Items)
	require.Zero(t, s.Bytes)
	require.InDelta(t, 40000.0/105, s.ItemsAverage, 1e-6)
	require.LessOrEqual(t, len(m.window), int(rateWindow/(250*time.Millisecond))+2, "the window is bounded")
}

func TestObserveTwiceAtOneMoment(t *testing.T) {
	var m Meter
	totals := &Totals{}
	require.Equal(t, Speeds{Left: -1}, m.Observe(totals))
	require.Equal(t, Speeds{Left: -1}, m.Observe(totals))
}

func TestLeftByObjects(t *testing.T) {
	// Nothing changed: 1000 objects/s, 100 000 expected, no byte to read, whatever the size.
	var m Meter
	totals := &Totals{Phase: Scanning, Expected: Expected{Objects: 100000, Bytes: 1 << 40}}
	s := run(&m, totals, 20*time.Second, func(t *Totals) {
		t.Objects.Inspected += 250
		t.Bytes.Inspected += 1 << 20
	})
	require.InDelta(t, 80, s.Left.Seconds(), 0.01)
}

func TestLeftByBytesThatReallyNeedReading(t *testing.T) {
	// One byte in ten is new. Inspection runs ahead: half of 1 GB is inspected, 50 MB wanted, 20 MB read at 1 MB/s.
	var m Meter
	totals := &Totals{Phase: Scanning, Expected: Expected{Objects: 1000, Bytes: 1e9}}
	totals.Objects.Inspected, totals.Bytes.Inspected, totals.Bytes.Wanted = 900, 500e6, 50e6
	s := run(&m, totals, 20*time.Second, func(t *Totals) { t.Bytes.Read += 250e3 })
	// 30 MB known to be new, and a tenth of the other 500 MB.
	require.InDelta(t, 30+50, s.Left.Seconds(), 0.01)
}

func TestLeftDoesNotCountTimeWithoutAnythingToRead(t *testing.T) {
	// A minute of scanning in which 1 MB was read in one second; then a file of 10 MB turns up.
	var m Meter
	totals := &Totals{Phase: Scanning, Expected: Expected{Objects: 100000, Bytes: 1e12}}
	scan := func(t *Totals) { t.Objects.Inspected += 1; t.Bytes.Inspected += 1000 }
	run(&m, totals, time.Second, func(t *Totals) { scan(t); t.Bytes.Wanted += 250e3; t.Bytes.Read += 250e3 })
	run(&m, totals, time.Minute, scan)
	totals.Expected = Expected{Objects: totals.Objects.Inspected, Bytes: totals.Bytes.Inspected + 10e6, Exact: true}
	totals.Bytes.Inspected += 10e6
	totals.Bytes.Wanted += 10e6
	s := m.Observe(totals)
	require.InDelta(t, 10, s.Left.Seconds(), 0.01, "at 1 MB/s, the speed while there was something to read")
}

func TestLeftIsSilentWhenItWouldLie(t *testing.T) {
	var m Meter
	totals := &Totals{Phase: Scanning, Expected: Expected{Objects: 1000}}
	s := run(&m, totals, 2*time.Second, func(t *Totals) { t.Objects.Inspected++ })
	require.Negative(t, s.Left, "too early")
	s = run(&m, totals, 10*time.Second, func(t *Totals) { t.Objects.Inspected += 100 })
	require.Negative(t, s.Left, "more objects than the parent had: the end is unknown")

	totals = &Totals{Phase: Scanning, Expected: Expected{Objects: 1000}}
	s = run(new(Meter), totals, 20*time.Second, func(*Totals) {})
	require.Negative(t, s.Left, "nothing has moved yet")

	totals = &Totals{Phase: Done, Expected: Expected{Objects: 1000, Exact: true}}
	s = run(new(Meter), totals, 20*time.Second, func(t *Totals) { t.Objects.Inspected++ })
	require.Negative(t, s.Left, "over")
}

func TestProgressOfJobs(t *testing.T) {
	restore := Totals{Job: Restore, Expected: Expected{Objects: 10, Bytes: 1000, Exact: true}}
	restore.Objects.Restored, restore.Objects.Kept, restore.Bytes.Restored = 3, 2, 250
	require.Equal(t, Progress{Objects: 5, Bytes: 250, ObjectsTotal: 10, BytesTotal: 1000, Moved: 250, Known: true,
		Exact: true},
		restore.Progress())
	require.InDelta(t, 0.25, restore.Progress().Ratio(), 1e-9)

	check := Totals{Job: Check, Expected: Expected{Objects: 4, Exact: true}}
	check.Objects.Verified, check.Objects.Damaged = 1, 1
	require.InDelta(t, 0.5, check.Progress().Ratio(), 1e-9, "by objects where there are no bytes")

	backup := Totals{Expected: Expected{Objects: 10, Bytes: 100}}
	backup.Objects.Inspected, backup.Bytes.Inspected, backup.Bytes.Wanted = 5, 90, 60
	backup.Bytes.Read, backup.Bytes.Skipped = 20, 10
	p := backup.Progress()
	require.Equal(t, uint64(30), p.Outstanding)
	require.Equal(t, uint64(60), p.Bytes, "what waits to be read is not done")

	backup.Bytes.Read = 500 // retries
	require.Zero(t, backup.Progress().Outstanding)
	require.Zero(t, (&Totals{}).Derive().DedupReduction)
}

func TestBottleneck(t *testing.T) {
	for _, c := range []struct {
		name   string
		times  StageTimes
		r      Resource
		share  float64
		within Stage
	}{
		{"nothing", StageTimes{Idle: time.Hour}, Nothing, 0, Idle},
		{
			"one uploader, others wait for it",
			StageTimes{Store: 100, WaitStore: 300, Read: 50, Compress: 50, Idle: 10000}, Repository, 0.8, Store,
		},
		{"processors", StageTimes{Compress: 60, Chunk: 30, WaitCPU: 60, Read: 50}, Computing, 0.75, Compress},
		{"only waited for", StageTimes{WaitScan: 30, Read: 10}, Finding, 0.75, Idle},
		{"budget", StageTimes{WaitMemory: 30, Read: 10}, Memory, 0.75, Idle},
	} {
		r, share := c.times.Bottleneck()
		require.Equal(t, c.r, r, c.name)
		require.InDelta(t, c.share, share, 1e-9, c.name)
		require.Equal(t, c.within, c.times.Busiest(r), c.name)
	}
	require.Equal(t, StageTimes{Read: 5}, StageTimes{Read: 15, Scan: 1}.Minus(StageTimes{Read: 10, Scan: 2}))
}

func TestMeterNamesWhatIsWaitedForNow(t *testing.T) {
	var m Meter
	totals := &Totals{Phase: Scanning}
	s := run(&m, totals, time.Minute, func(t *Totals) { t.Stages[Read] += time.Second })
	require.Equal(t, "reading", s.Limit.String())
	s = run(&m, totals, rateWindow, func(t *Totals) { t.Stages[WaitStore] += time.Second })
	require.Equal(t, "the repository", s.Limit.String())
	s = run(&m, totals, 2*rateWindow, func(t *Totals) { t.Stages[Idle] += time.Second })
	require.Empty(t, s.Limit.String())
}

// A job whose transfers are held by a limit waits for that, whatever stage its workers are in, and what waits to be
// stored is neither done nor stored at the speed of reading.
func TestMeterNamesTheTransferLimit(t *testing.T) {
	var m Meter
	totals := &Totals{Phase: Scanning, Limits: Limits{Upload: 1e6},
		Expected: Expected{Objects: 10, Bytes: 100e6, Exact: true}}
	totals.Objects.Inspected, totals.Bytes.Inspected, totals.Bytes.Wanted = 10, 100e6, 100e6
	totals.Bytes.Read, totals.Bytes.Compressed = 100e6, 50e6
	s := run(&m, totals, 10*time.Second, func(t *Totals) {
		t.Stages[Compress] += time.Second
		t.Limited += 200 * time.Millisecond
		t.Uploaded += 250e3
	})
	require.Equal(t, TransferLimit, s.Limit)
	require.InDelta(t, 40, s.Left.Seconds(), 1)
	require.InDelta(t, 0.6, totals.Progress().Ratio(), 0.01)
	s = run(&m, totals, 2*rateWindow, func(t *Totals) {
		t.Stages[Compress] += time.Second
		t.Limited += 50 * time.Millisecond
	})
	require.Equal(t, Computing, s.Limit, "the limit rarely holds a transfer")
}

// Workers that compress, and sleep for most of the time, are not held up by the processors.
func TestTheProcessorsAreNoLimitOfASleepingJob(t *testing.T) {
	for _, c := range []struct {
		asleep time.Duration // of each second
		want   Resource
	}{{880 * time.Millisecond, Nothing}, {510 * time.Millisecond, Nothing}, {490 * time.Millisecond, Computing},
		{0, Computing}} {
		var m Meter
		totals := &Totals{Phase: Scanning}
		held := time.Duration(0)
		s := run(&m, totals, 2*rateWindow, func(t *Totals) {
			t.Stages[Compress] += time.Second
			held += c.asleep / 4
			t.Gates = []Gate{{Device: "sda"}, {Device: "sdb", Held: held}}
		})
		require.Equal(t, c.want, s.Limit, c.asleep)
		require.Equal(t, c.want == Nothing, s.Limit.String() == "")
	}
}
