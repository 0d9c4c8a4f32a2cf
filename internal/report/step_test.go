package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The report of a prune consists of steps: each has its own length, speed and end, and carries nothing over to the
// next.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewJob(Prune, time.Now)
		var m Meter
		look := func() (Totals, Progress, Speeds) {
			totals := l.Snapshot()
			return totals, totals.Progress(), m.Observe(&totals)
		}
		_, p, s := look()
		require.Equal(t, Progress{}, p)
		require.Negative(t, s.Left)

		(*Step)(nil).Did(1, 1)
		reading := l.Step(Listing, Course{Unit: "index files", Units: 100, Bytes: 100_000, Exact: true})
		for range 20 {
			time.Sleep(time.Second)
			reading.Did(2, 2000)
			_, p, s = look()
		}
		require.Equal(t, Progress{Objects: 40, ObjectsTotal: 100, Bytes: 40_000, BytesTotal: 100_000, Moved: 40_000,
			Known: true,
			Exact: true, Unit: "index files"}, p)
		require.InDelta(t, 2, s.Items, 1e-6)
		require.InDelta(t, 2000, s.BytesAverage, 1e-6)
		require.InDelta(t, 30, s.Left.Seconds(), 0.1)

		// The next one is fast, and knows only how much there is at most.
		removing := l.Step(Following, Course{Unit: "folders", Units: 1000})
		totals, p, s := look()
		require.Equal(t, Following, totals.Phase)
		require.Equal(t, Progress{ObjectsTotal: 1000, Known: true, Unit: "folders"}, p)
		require.Zero(t, s.Items)
		require.Negative(t, s.Left, "nothing can be said of its time yet")
		for range 4 {
			time.Sleep(time.Second)
			removing.Did(150, 0)
			_, p, s = look()
		}
		require.InDelta(t, 150, s.Items, 1e-6, "what came before is not in its speed")
		require.InDelta(t, 150, s.ItemsAverage, 1e-6)
		require.InDelta(t, 0.6, p.Ratio(), 1e-9)
		require.InDelta(t, 400./150, s.Left.Seconds(), 0.1)
		removing.Did(1000, 0)
		_, p, _ = look()
		require.False(t, p.Known, "there is more than was thought")

		l.Phase(Marking)
		totals, p, s = look()
		require.Equal(t, Progress{}, p)
		require.Zero(t, s.Items)
		require.Equal(t, 20*time.Second, totals.Phases[Listing])
		require.Equal(t, 4*time.Second, totals.Phases[Following])
	})
}

// A check finds folders as it goes, so nearly all known work is done: the report shows no fraction and no time left.
func TestACheckOfTheStructureKnowsNoWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewJob(Check, time.Now)
		var m Meter
		l.Phase(Checking)
		for i := range uint64(10) {
			l.Expect(Expected{Objects: 100*i + 110, Exact: true})
			l.Objects.Verified.Add(100)
			time.Sleep(time.Second)
			totals := l.Snapshot()
			require.Zero(t, totals.Progress().Ratio())
			require.Negative(t, m.Observe(&totals).Left)
		}
		l.Expect(Expected{Objects: 1100, Bytes: 5000, Exact: true})
		l.Phase(Verifying)
		l.Bytes.Verified.Add(1000)
		totals := l.Snapshot()
		require.InDelta(t, 0.2, totals.Progress().Ratio(), 1e-9)
	})
}

// The units of a step differ in size: if their bytes are known, the time left is estimated by bytes.
func TestTimeLeftOfAStepIsEstimatedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewJob(Prune, time.Now)
		var m Meter
		s := l.Step(Repacking, Course{Unit: "packs", Units: 30, Bytes: 1000, Exact: true})
		s.Did(2, 0)
		var left time.Duration
		for range 10 {
			time.Sleep(time.Second)
			s.Did(0, 50)
			totals := l.Snapshot()
			left = m.Observe(&totals).Left
		}
		require.InDelta(t, 10, left.Seconds(), 0.1)
	})
}
