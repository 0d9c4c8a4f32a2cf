package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// TestCountersOfARun: a run is held back for as long as the gate that does so most, and busy in relation to the
// processors that it may use, of a quota or of its threads.
func TestCountersOfARun(t *testing.T) {
	l := report.NewJob(report.Backup, time.Now)
	l.Gates(func() []report.Gate { return []report.Gate{{Held: time.Second}, {Held: 3 * time.Second}, {}} })
	for processors, usable := range map[float64]float64{0.5: 0.5, 1000: float64(sysinfo.UsableCPUs())} {
		plant := &tunable{flow: &pipeline{
			deps: deps{ledger: l, session: &repo.Session{}}, par: Parallel{Processors: processors},
		}}
		before := sysinfo.CPUTime()
		c := plant.Counters()
		after := sysinfo.CPUTime()
		require.Equal(t, 3*time.Second, c.Held)
		require.GreaterOrEqual(t, c.Busy.Seconds()+1e-6, before.Seconds()/usable)
		require.LessOrEqual(t, c.Busy.Seconds()-1e-6, after.Seconds()/usable)
		again := plant.Counters()
		require.LessOrEqual(t, again.Busy.Seconds()-1e-6, sysinfo.CPUTime().Seconds()/usable, "added once")
	}
}
