package daemon

import (
	"errors"
	"fmt"
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

// Of a repository without snapshots, and of a source that is in none, no last backup is known.
func TestAJobWithAnotherRepositoryOrSourceHasNoBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), "CHECKEVERY 168h"))
		w.config.OptionFile = filepath.Join(t.TempDir(), "options")
		define := func(repository string, sources ...string) {
			j := makeJob(t, "home", hourly(), "CHECKEVERY 168h")
			j.Repository, j.Sources = repository, sources
			w.change(repository+fmt.Sprint(sources), func() { w.jobs = []*job.Job{j} })
		}
		define("/repo/one", "/a", "/b")
		s, stop := w.orders()
		time.Sleep(15 * time.Minute)
		require.NotZero(t, only(t, s).LastBackup)
		require.NotZero(t, only(t, s).LastProven)
		define("/repo/one", "/b")
		time.Sleep(2 * time.Minute)
		require.NotZero(t, only(t, s).LastBackup, "a source less")
		require.Equal(t, []string{"home backup", "home check"}, w.started())

		define("/repo/one", "/b", "/c")
		time.Sleep(2 * time.Minute)
		require.Zero(t, only(t, s).LastBackup, "no backup has /c")
		require.Zero(t, only(t, s).LastProven)
		time.Sleep(time.Hour)
		require.NotZero(t, only(t, s).LastBackup)
		require.Equal(t, []string{"home backup"}, w.started(), "the repository was checked")
		require.NoError(t, stop())

		define("/repo/two", "/b", "/c")
		offline, err := Offline(w.dir, "here", w.jobs, nil)
		require.NoError(t, err)
		require.Zero(t, offline[0].LastBackup, "without the service")
		time.Sleep(time.Minute)
		s, stop = w.orders()
		require.Zero(t, only(t, s).LastBackup, "nothing is there")
		time.Sleep(time.Hour)
		require.NotZero(t, only(t, s).LastBackup)
		require.Equal(t, []string{"home backup", "home check"}, w.started())

		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 30 * time.Minute, Result{} } })
		time.Sleep(time.Hour)
		require.Equal(t, "running", only(t, s).State)
		define("/repo/three", "/b", "/c")
		time.Sleep(30 * time.Minute)
		require.Zero(t, only(t, s).LastBackup, "the run that has ended wrote to /repo/two")
		require.NoError(t, stop())

		w.set(func() { s.state.Jobs["home"].LastBackup = time.Now() })
		s.state.Jobs["home"].Repository, s.state.Jobs["home"].Sources = "", nil
		require.NoError(t, s.state.write(w.dir))
		s, stop = w.orders()
		require.NotZero(t, only(t, s).LastBackup, "a state file of an older program")
		require.NoError(t, stop())
	})
}

// Nothing is known of a new repository in the place of the one that was there: it is checked in the run that finds it.
func TestAnotherRepositoryAtTheSamePlaceIsNotProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, checks := "one", Result{}
		w := newWorld(t, makeJob(t, "home", hourly(), "CHECKEVERY 168h"))
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				if s.Name != "backup" {
					return time.Minute, checks
				}
				return time.Minute, Result{Summary: []byte(`{"snapshot_id":"a","repository_id":"` + id + `"}`)}
			}
		})
		s, stop := w.orders()
		time.Sleep(2*time.Hour + 15*time.Minute)
		require.Equal(t, []string{"home backup", "home check", "home backup"}, w.started()[:3])
		proven := only(t, s).LastProven
		require.NotZero(t, proven)

		w.set(func() { id, checks = "two", Result{ExitCode: 1, Summary: []byte(`{"num_errors":1}`)} })
		time.Sleep(time.Hour)
		require.Zero(t, only(t, s).LastProven, "the check of the other one says nothing")
		w.set(func() { checks = Result{} })
		time.Sleep(time.Hour)
		require.NotZero(t, only(t, s).LastProven)
		require.NoError(t, stop())
	})
}
