package daemon

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// A job is stale after ALERTAFTER, and not between two times of its schedule.
func TestAJobIsStaleWhenABackupIsMissing(t *testing.T) {
	start := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		every, limit string
		period       time.Duration
		fresh, stale time.Duration
	}{
		"hourly": {limit: "72h", period: time.Hour, fresh: 72 * time.Hour, stale: 73 * time.Hour},
		"weekly": {limit: "72h", period: 7 * day, fresh: 8 * day, stale: 8*day + 2*time.Hour},
		"daily":  {limit: "6h", period: day, fresh: 30 * time.Hour, stale: 31 * time.Hour},
		"never":  {limit: "0", period: time.Hour, fresh: 900 * day, stale: 0},
	} {
		j := makeJob(t, "home", every{c.period, 0}, "ALERTAFTER "+c.limit)
		l := &live{memory: &memory{Since: start.Add(-day), LastBackup: start}, job: j}
		s := &service{jobs: []*live{l}}
		require.False(t, s.stale(l, start.Add(c.fresh)), name)
		if c.stale > 0 {
			require.True(t, s.stale(l, start.Add(c.stale)), name)
		}
	}
}

// What status shows without the service is what the service showed.
func TestJobsAreKnownWithoutTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := makeJob(t, "a", hourly())
		w := newWorld(t, a)
		w.result = func(Step) (time.Duration, Result) { return time.Minute, lacking() }
		s, stop := w.orders()
		time.Sleep(30 * time.Minute)
		d, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.NoError(t, stop())
		mistake := job.Invalid{Name: "b", Err: errors.New("a mistake")}
		jobs, err := Offline(w.dir, "here", []*job.Job{a}, []job.Invalid{mistake})
		require.NoError(t, err)
		require.Len(t, jobs, 2)
		want, err := json.Marshal(d.Jobs[0])
		require.NoError(t, err)
		got, err := json.Marshal(jobs[0])
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
		require.Equal(t, "incomplete", jobs[0].State)
		require.Equal(t, "invalid", jobs[1].State)
		jobs, err = Offline(t.TempDir(), "here", []*job.Job{a}, nil)
		require.NoError(t, err)
		require.Zero(t, jobs[0].LastBackup)
	})
}

// Without the service, a time that has long passed is stale, and a run that was killed with it is not idle.
func TestADeadServiceIsNotFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := makeJob(t, "a", hourly())
		w := newWorld(t, a)
		offline := func() event.DaemonJob {
			jobs, err := Offline(w.dir, "here", []*job.Job{a}, nil)
			require.NoError(t, err)
			return jobs[0]
		}
		stop := w.begin()
		time.Sleep(30 * time.Minute)
		require.NoError(t, stop())
		require.Equal(t, "idle", offline().State)
		time.Sleep(50 * time.Minute)
		require.False(t, offline().Stale, "cron may start it")
		time.Sleep(10 * time.Minute)
		require.True(t, offline().Stale)

		stop = w.begin()
		time.Sleep(30 * time.Second)
		require.False(t, offline().Stale, "its process lives")
		w.killAfter(0)
		time.Sleep(time.Minute)
		require.ErrorIs(t, stop(), errKilled)
		require.Equal(t, "cut", offline().State)
	})
}
