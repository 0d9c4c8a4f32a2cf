package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// While a target does not answer, that is what the job waits for, and nothing is estimated.
func TestAnOutageIsWhatTheJobWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first, second Intake
		l := New(time.Now)
		first.Attach(l)
		second.Attach(l)
		clock := l.Worker("compressor")
		defer clock.Stop()
		clock.Enter(Compress)
		var m Meter
		pass := func(d time.Duration) (Outage, Speeds) {
			for range d / time.Second {
				time.Sleep(time.Second)
				totals := l.Snapshot()
				m.Observe(&totals)
			}
			totals := l.Snapshot()
			return totals.Outage, m.Observe(&totals)
		}
		out, s := pass(9 * time.Second)
		require.Equal(t, Outage{}, out)
		require.Equal(t, "computing", s.Limit.String())

		first.Outages.Begin("connection refused")
		pass(2 * time.Second)
		first.Outages.Begin("no route to host")
		out, s = pass(3 * time.Second)
		require.Equal(t, Outage{"no route to host", 5 * time.Second}, out, "it is the same outage")
		require.Equal(t, "an answer of the target", s.Limit.String())
		require.Equal(t, Answer, s.Limit)
		require.Negative(t, s.Left)

		first.Outages.End()
		first.Outages.End()
		out, s = pass(9 * time.Second)
		require.Equal(t, Outage{Took: 5 * time.Second}, out)
		require.Equal(t, "computing", s.Limit.String())

		second.Outages.BeginAt("silent", time.Now().Add(-3*time.Second))
		second.Outages.End()
		out, _ = pass(time.Second)
		require.Equal(t, Outage{Took: 8 * time.Second}, out, "it was noticed late")

		second.Outages.Begin("timeout")
		out, _ = pass(time.Second)
		require.Equal(t, Outage{"timeout", 9 * time.Second}, out, "those of both repositories of a copy")
	})
}
