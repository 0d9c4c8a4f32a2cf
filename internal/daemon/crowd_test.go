package daemon

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
)

// A job of each minute runs on time beside a first backup that takes days, of the same disk and to the same repository.
func TestNoJobWaitsForALongBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long, minutely := makeJob(t, "long", daily()), makeJob(t, "minutely", every{time.Minute, 0})
		minutely.Repository = long.Repository
		w := newWorld(t, long, minutely)
		w.result = func(s Step) (time.Duration, Result) {
			if s.Args[len(s.Args)-1] == "long" {
				return 72 * time.Hour, Result{}
			}
			return 5 * time.Second, Result{}
		}
		s, stop := w.orders()
		time.Sleep(3 * time.Hour)
		d, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Equal(t, "running", d.Jobs[0].State)
		w.take()
		time.Sleep(2 * time.Hour)
		runs := 0
		for _, e := range w.take() {
			require.NotEqual(t, record.Waiting, e.Kind, "%s waits: %s", e.Job, e.Text)
			if e.Kind == record.Finished {
				runs++
				require.Less(t, e.Run.End.Sub(e.Run.End.Truncate(time.Minute)), 10*time.Second, "it is late")
			}
		}
		require.InDelta(t, 120, runs, 1)
		require.NoError(t, stop())
	})
}

func TestRunsOfTheSameSourcesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", hourly()), makeJob(t, "b", every{time.Hour, 11 * time.Minute})
		c, d := makeJob(t, "c", hourly()), makeJob(t, "d", hourly())
		b.Repository, b.Sources = a.Repository, a.Sources
		c.Sources, d.Repository = a.Sources, a.Repository
		w := newWorld(t, a, b, c, d)
		w.result = func(Step) (time.Duration, Result) { return 5 * time.Minute, Result{} }
		s, stop := w.orders()
		time.Sleep(12 * time.Minute)
		got, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Equal(t, "job a backs up the same sources to the same repository", got.Jobs[1].WaitsFor)
		time.Sleep(10 * time.Minute)
		require.NoError(t, stop())
		require.Equal(t, []string{"a backup", "c backup", "d backup", "b backup"}, w.started())
	})
}

// Prune is the one step that another of its kind in the same repository makes fail.
func TestPrunesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := []string{`KEEPSNAPSHOTS "last 3"`, "PRUNEEVERY 1h"}
		a, b := makeJob(t, "a", hourly(), lines...), makeJob(t, "b", hourly(), lines...)
		b.Repository = a.Repository
		w := newWorld(t, a, b)
		prunes := 0
		w.result = func(s Step) (time.Duration, Result) {
			if s.Name == "prune" {
				prunes++
			}
			return time.Minute, Result{Removed: 1}
		}
		s, stop := w.orders()
		time.Sleep(12*time.Minute + 30*time.Second)
		got, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Equal(t, "prune", got.Jobs[0].Step+got.Jobs[1].Step)
		require.Contains(t, got.Jobs[0].WaitsFor+got.Jobs[1].WaitsFor, "prunes the same repository")
		require.Equal(t, 1, prunes)
		time.Sleep(5 * time.Minute)
		require.Equal(t, 2, prunes)
		require.Len(t, w.runs(), 2)
		require.NoError(t, stop())
	})
}

// Runs that take long, or hang, hold no other job up.
func TestLongRunsDoNotCountForTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []*job.Job
		for i := range mostRuns + 1 {
			jobs = append(jobs, makeJob(t, fmt.Sprint("j", i), hourly()))
		}
		w := newWorld(t, jobs...)
		w.result = func(Step) (time.Duration, Result) { return 72 * time.Hour, Result{} }
		s, stop := w.orders()
		time.Sleep(15 * time.Minute)
		require.Equal(t, "waiting", jobsOf(t, s)["j4"].State)
		require.Equal(t, "4 jobs began a short time ago: j0, j1, j2, j3", jobsOf(t, s)["j4"].WaitsFor)
		time.Sleep(7 * time.Minute)
		require.Equal(t, "running", jobsOf(t, s)["j4"].State)
		require.NoError(t, stop())
	})
}

func TestFewRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []*job.Job
		for i := range 10 {
			jobs = append(jobs, makeJob(t, fmt.Sprint("j", i), hourly()))
		}
		w := newWorld(t, jobs...)
		w.result = func(Step) (time.Duration, Result) { return 5 * time.Minute, Result{} }
		stop := w.begin()
		time.Sleep(30 * time.Minute)
		require.Equal(t, mostRuns, w.most)
		require.Len(t, w.runs(), 10)
		require.NoError(t, stop())
	})
}
