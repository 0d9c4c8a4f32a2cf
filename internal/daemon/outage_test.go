package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// TestTheLogSaysThatATargetIsAway: once when it goes, with the reason, and once when it is back.
func TestTheLogSaysThatATargetIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 20 * time.Minute, Result{} } })
		stop := w.begin()
		time.Sleep(time.Hour + 10*time.Minute)
		w.take()
		notes := func(why string) (texts []string) {
			w.set(func() { w.says(&event.Status{Phase: "scanning", TargetError: why}) })
			time.Sleep(2 * time.Minute)
			for _, e := range w.take() {
				if e.Kind == record.Note {
					texts = append(texts, e.Job+": "+e.Text)
				}
			}
			return texts
		}
		require.Empty(t, notes(""))
		require.Equal(t, []string{"home: The target does not answer, and is tried again: connection refused"},
			notes("connection refused"))
		require.Empty(t, notes("no route to host"))
		require.Equal(t, []string{"home: The target answers again"}, notes(""))
		require.NoError(t, stop())
	})
}
