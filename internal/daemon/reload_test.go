package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// invalids returns the mistakes that were reported since the last call, as "job text".
func (w *world) invalids() (all []string) {
	for _, e := range w.take() {
		if e.Kind == record.Invalid {
			all = append(all, e.Job+" "+e.Text)
		}
	}
	return all
}

// change writes the option file, now by the clock of the bubble.
func (w *world) change(text string, set func()) {
	w.set(func() {
		set()
		require.NoError(w.t, os.WriteFile(w.config.OptionFile, []byte(text), 0o600))
		require.NoError(w.t, os.Chtimes(w.config.OptionFile, w.wall(), w.wall()))
	})
}

func jobsOf(t *testing.T, s *service) map[string]event.DaemonJob {
	t.Helper()
	d, err := s.order(control.Command{Action: control.ShowStatus})
	require.NoError(t, err)
	all := map[string]event.DaemonJob{}
	for _, j := range d.Jobs {
		all[j.Name] = j
	}
	return all
}

func TestAnInvalidJobIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", hourly()), makeJob(t, "b", hourly())
		w := newWorld(t, a)
		w.config.OptionFile = filepath.Join(t.TempDir(), "options")
		mistake := job.Invalid{Name: "b", Err: errors.New("/options:7: unknown keyword")}
		w.change("1", func() { w.jobs, w.invalid = []*job.Job{a}, []job.Invalid{mistake} })
		s, stop := w.orders()
		time.Sleep(15 * time.Minute)
		require.Equal(t, []string{"b /options:7: unknown keyword; it does not run"}, w.invalids())
		require.Equal(t, []string{"a backup"}, w.started(), "the others run")
		require.Equal(t, "invalid", jobsOf(t, s)["b"].State)
		require.Equal(t, "/options:7: unknown keyword", jobsOf(t, s)["b"].Problem)
		_, err := s.order(control.Command{Action: control.StartJob, Job: "b"})
		require.ErrorContains(t, err, "job b is not valid: /options:7: unknown keyword")
		require.NoError(t, stop())
		s, stop = w.orders()
		w.change("12", func() {})
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.invalids(), "neither a restart nor a change elsewhere repeats it")

		w.change("123", func() { w.jobs, w.invalid = []*job.Job{a, b}, nil })
		time.Sleep(time.Hour)
		require.Empty(t, w.invalids())
		require.Empty(t, jobsOf(t, s)["b"].Problem)
		w.started()
		w.change("1234", func() { w.jobs, w.invalid = []*job.Job{a}, []job.Invalid{mistake} })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"b /options:7: unknown keyword; it runs as it was before"}, w.invalids())
		require.ElementsMatch(t, []string{"a backup", "b backup"}, w.started(), "it runs as it was before")
		require.Equal(t, "/options:7: unknown keyword", jobsOf(t, s)["b"].Problem)
		require.Equal(t, "idle", jobsOf(t, s)["b"].State)
		require.NoError(t, stop())
	})
}

func TestAYoungOptionFileIsNotReadYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", hourly()), makeJob(t, "b", hourly())
		w := newWorld(t, a)
		w.config.OptionFile = filepath.Join(t.TempDir(), "options")
		w.change("1", func() {})
		start := time.Now()
		s, stop := w.orders()
		require.GreaterOrEqual(t, time.Since(start), settleTime, "it is read when it is old enough")
		require.Contains(t, jobsOf(t, s), "a")
		for time.Since(start) < 5*time.Minute { // it is written all the time
			w.change(time.Now().String(), func() { w.jobs = []*job.Job{b} })
			w.changes <- struct{}{}
			time.Sleep(time.Second)
			require.Contains(t, jobsOf(t, s), "a")
		}
		time.Sleep(2 * time.Minute)
		require.Contains(t, jobsOf(t, s), "b")
		require.NotContains(t, jobsOf(t, s), "a")

		w.take()
		w.change("cut", func() { w.loadErr = job.ErrUnfinished })
		time.Sleep(30 * time.Second)
		require.Empty(t, w.invalids(), "its end may come")
		time.Sleep(3 * time.Minute)
		require.Len(t, w.invalids(), 1)
		require.Contains(t, jobsOf(t, s), "b")
		d, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Equal(t, job.ErrUnfinished.Error(), d.Problem)
		w.set(func() { w.loadErr, w.jobs = nil, []*job.Job{a} })
		time.Sleep(2 * time.Minute)
		require.Contains(t, jobsOf(t, s), "a")
		require.NoError(t, stop())
	})
}

// A file that is cut off at the end of a line is valid, and lacks jobs.
func TestAJobThatIsNoLongerInTheOptionFileIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", hourly()), makeJob(t, "b", hourly())
		first, second := makeJob(t, "first", hourly()), makeJob(t, "second", hourly())
		first.Group, second.Group = "home", "home"
		w := newWorld(t, a, b, first, second)
		w.config.OptionFile = filepath.Join(t.TempDir(), "options")
		w.change("1", func() {})
		s, stop := w.orders()
		time.Sleep(2 * time.Minute)
		w.change("12", func() { w.jobs = []*job.Job{a, first} })
		time.Sleep(2 * time.Minute)
		gone := " is no longer in the option file and does not run any more; if that is not meant, put it back"
		require.Equal(t, []string{"b job b" + gone}, w.invalids(), "the group is still there")
		w.change("123", func() { w.jobs = []*job.Job{a} })
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"home job home" + gone}, w.invalids())
		w.change("1234", func() { w.jobs = []*job.Job{a, b} })
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.invalids())

		w.change("12345", func() { w.jobs = nil })
		_, err := s.order(control.Command{Action: control.Reload, Job: "B"})
		require.NoError(t, err)
		require.Equal(t, []string{"a job a" + gone}, w.invalids(), "b was removed on purpose")
		time.Sleep(time.Hour)
		require.Empty(t, w.invalids())
		require.NoError(t, stop())
	})
}
