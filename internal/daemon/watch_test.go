package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
)

// TestARunThatTakesTooLongEnds: after max-run-time its step ends, no other step begins, and the run has failed. Time
// for which the run waits does not count.
func TestARunThatTakesTooLongEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily(), "MAXRUNTIME 2h", "CHECKEVERY 1h", "QUIETHOURS 03:00-09:00"))
		w.result = func(s Step) (time.Duration, Result) {
			if s.Name == "backup" {
				return time.Hour, Result{}
			}
			return 100 * time.Hour, Result{}
		}
		s, stop := w.orders()
		time.Sleep(9 * time.Hour) // the backup began at 02:30, and was interrupted from 03:00 to 09:00
		require.Empty(t, w.runs())
		time.Sleep(85 * time.Minute)
		require.Equal(t, "running", only(t, s).State)
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"home schedule failed"}, w.runs())
		require.Equal(t, []string{"home backup", "home backup", "home check"}, w.started())
		require.Equal(t, "check: ended, since the run took longer than MAXRUNTIME, 2h0m0s", only(t, s).LastRun.Message)
		require.NoError(t, stop())
	})
}

// TestAStepWithoutProgressIsReported: once, and again after it went on.
func TestAStepWithoutProgressIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily(), "STALLAFTER 2h"))
		w.result = func(Step) (time.Duration, Result) { return 20 * time.Hour, Result{} }
		stalls := func() (n int) {
			for _, e := range w.take() {
				if e.Kind == record.Stalled {
					require.Equal(t, "backup", e.Step)
					require.Equal(t, "home", e.Job)
					n++
				}
			}
			return n
		}
		s, stop := w.orders()
		time.Sleep(4 * time.Hour) // it began at 02:30
		require.Zero(t, stalls())
		time.Sleep(40 * time.Minute)
		require.Equal(t, 1, stalls())
		time.Sleep(5 * time.Hour)
		require.Zero(t, stalls())
		moved := *s.jobs[0].run.status.Load()
		moved.BytesDone++
		s.jobs[0].run.status.Store(&moved)
		time.Sleep(3 * time.Hour)
		require.Equal(t, 1, stalls())
		require.NoError(t, stop())
	})
}
