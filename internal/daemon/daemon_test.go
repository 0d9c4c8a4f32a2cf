package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// hourly is due ten minutes past each hour; the clock of a bubble begins at midnight.
func hourly() job.Schedule { return every{time.Hour, 10 * time.Minute} }

func daily() job.Schedule { return every{day, 150 * time.Minute} }

func TestServiceRunsEachTimeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		stop := w.begin()
		time.Sleep(3 * time.Hour)
		require.NoError(t, stop())
		require.Equal(t, []string{"home backup", "home backup", "home backup"}, w.started())
		require.Equal(t, []string{"home schedule done", "home schedule done", "home schedule done"}, w.runs())
		require.Zero(t, w.inhibited())

		time.Sleep(3 * time.Hour) // without the service
		stop = w.begin()
		time.Sleep(5 * time.Minute)
		require.Equal(t, []string{"home missed done"}, w.runs(), "one run for all missed times")
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"home schedule done"}, w.runs())
		require.NoError(t, stop())
	})
}

func TestServiceTriesAgainWhileTheTargetIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily()))
		var times []time.Time
		w.result = func(Step) (time.Duration, Result) {
			times = append(times, time.Now())
			return 0, Result{ExitCode: 10, Message: "no repository"}
		}
		s, stop := w.orders()
		time.Sleep(8 * time.Hour)
		j := only(t, s)
		require.Equal(t, "retrying", j.State)
		require.Equal(t, "backup: no repository", j.LastRun.Message)
		require.Equal(t, len(times), j.Failures)
		var pauses []int
		for i := range times[1:] {
			pauses = append(pauses, int(times[i+1].Sub(times[i]).Minutes()))
		}
		require.Equal(t, []int{1, 2, 4, 8, 16, 32, 60, 60, 60, 60}, pauses)

		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 0, Result{} } })
		w.take()
		w.changes <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"home appeared done"}, w.runs(), "the disk is back")
		require.Zero(t, only(t, s).Failures)
		time.Sleep(17 * time.Hour)
		require.Empty(t, w.runs())
		require.NoError(t, stop())
	})
}

// A wrong key is not tried again before the schedule, and the failure of a local disk once.
func TestServiceDoesNotRepeatWhatStaysWrong(t *testing.T) {
	for code, want := range map[int]int{12: 1, 2: 1, 1: 2, 137: 11} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, makeJob(t, "home", daily()))
			w.set(func() { w.result = func(Step) (time.Duration, Result) { return 0, Result{ExitCode: code} } })
			stop := w.begin()
			time.Sleep(8 * time.Hour)
			require.NoError(t, stop())
			require.Len(t, w.started(), want, "code %d", code)
		})
	}
}

func TestServiceRepeatsARunThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 10 * time.Minute, Result{} } })
		stop := w.begin()
		time.Sleep(15 * time.Minute)
		w.killAfter(0)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, stop(), errKilled)
		w.take()
		w.started()
		stop = w.begin()
		synctest.Wait()
		require.Equal(t, []string{"home schedule failed"}, w.runs(), "the run that was cut")
		time.Sleep(20 * time.Minute)
		require.Equal(t, []string{"home retry done"}, w.runs())
		require.NoError(t, stop())
	})
}

func TestServiceThatEndsKeepsTheRunForItsNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 10 * time.Minute, Result{} } })
		stop := w.begin()
		time.Sleep(15 * time.Minute)
		require.NoError(t, stop())
		require.Equal(t, []string{"home schedule stopped"}, w.runs())
		require.Equal(t, []string{"home backup"}, w.started())
		stop = w.begin()
		synctest.Wait()
		require.Equal(t, []string{"home backup"}, w.started())
		require.NoError(t, stop())
	})
}

func TestServiceSurvivesStepsOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		stop := w.begin()
		time.Sleep(15 * time.Minute)
		require.Len(t, w.runs(), 1)
		w.jump(-20 * time.Minute) // before the time of the run
		time.Sleep(20 * time.Minute)
		require.Empty(t, w.runs(), "a small step back repeats nothing")
		time.Sleep(time.Hour)
		require.Len(t, w.runs(), 1)
		w.jump(50 * day)
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{"home missed done"}, w.runs(), "one run for all times that were skipped")
		time.Sleep(time.Hour)
		require.Len(t, w.runs(), 1)
		w.jump(-50 * day)
		time.Sleep(time.Hour)
		require.Len(t, w.runs(), 1, "a time in the future blocks nothing")
		require.NoError(t, stop())
	})
}

func TestServiceWaitsAndSuspends(t *testing.T) {
	for name, c := range map[string]struct {
		lines       []string
		block, free func(w *world)
		why         string
	}{
		"battery": {nil, func(w *world) { w.power = machinestate.Power{OnBattery: true, Charge: 90} },
			func(w *world) { w.power = machinestate.Power{} }, "the machine runs on battery"},
		"low battery": {[]string{"ONBATTERY 50%"},
			func(w *world) { w.power = machinestate.Power{OnBattery: true, Charge: 49} },
			func(w *world) { w.power = machinestate.Power{OnBattery: true, Charge: 50} }, "the battery is below 50%"},
		"disk": {nil, func(w *world) { w.mounted["Blue"] = false },
			func(w *world) { w.mounted["Blue"] = true }, "the disk LABEL=Blue is not mounted"},
		"metered": {nil, func(w *world) { w.power = machinestate.Power{Metered: true} },
			func(w *world) { w.power = machinestate.Power{} }, "the network is metered"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := makeJob(t, "home", hourly(), c.lines...)
				j.Repository = map[bool]string{false: "smb://nas/share", true: "LABEL=Blue/backup"}[name == "disk"]
				w := newWorld(t, j)
				w.set(func() { w.result = func(Step) (time.Duration, Result) { return 9 * time.Minute, Result{} } })
				locked := func(f func(*world)) { w.set(func() { f(w) }) }
				locked(c.block)
				s, stop := w.orders()
				time.Sleep(12 * time.Minute)
				require.Empty(t, w.started())
				require.Equal(t, "waiting", only(t, s).State)
				require.Equal(t, c.why, only(t, s).WaitsFor)
				locked(c.free)
				time.Sleep(2 * time.Minute)
				require.Equal(t, []string{"home backup"}, w.started())
				require.Equal(t, "running", only(t, s).State)
				require.Equal(t, 1, w.inhibited())
				locked(c.block)
				time.Sleep(2 * time.Minute)
				require.Equal(t, "waiting", only(t, s).State)
				require.Zero(t, w.inhibited())
				locked(c.free)
				time.Sleep(15 * time.Minute)
				require.Equal(t, []string{"home backup"}, w.started())
				require.Equal(t, "idle", only(t, s).State)
				var kinds []record.Kind
				for _, e := range w.take() {
					if e.Kind != record.StepEnded {
						kinds = append(kinds, e.Kind)
					}
				}
				require.Equal(t, []record.Kind{record.Loaded, record.Waiting, record.Started, record.Waiting, record.Resumed,
					record.Progress, record.Finished}, kinds)
				require.NoError(t, stop())
			})
		})
	}
}

func TestServiceKeepsQuietHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), "QUIETHOURS 00:15-01:30"))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 20 * time.Minute, Result{} } })
		s, stop := w.orders()
		time.Sleep(20 * time.Minute)
		require.Equal(t, []string{"home backup"}, w.started())
		require.Equal(t, "quiet hours until Sat 01:30", only(t, s).WaitsFor)
		time.Sleep(69 * time.Minute)
		require.Empty(t, w.started())
		time.Sleep(22 * time.Minute)
		require.Equal(t, []string{"home backup"}, w.started())
		require.Equal(t, []string{"home schedule done"}, w.runs())
		require.NoError(t, stop())
	})
}

func TestServiceSleepsWithTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 10 * time.Minute, Result{} } })
		s, stop := w.orders()
		time.Sleep(15 * time.Minute)
		w.sleeps <- true
		synctest.Wait()
		require.Equal(t, "the machine is about to sleep", only(t, s).WaitsFor)
		require.Zero(t, w.inhibited())
		w.set(func() { require.NotZero(t, w.ready) })
		w.jump(8 * time.Hour)
		w.sleeps <- false
		time.Sleep(11 * time.Minute)
		require.Equal(t, []string{"home schedule done"}, w.runs())
		w.sleeps <- true
		time.Sleep(70 * time.Minute)
		require.Equal(t, []string{"home schedule done"}, w.runs(), "the end of the sleep was not reported")
		require.NoError(t, stop())
	})
}

// A job with on-appear off does not run when its disk returns.
func TestServiceSkipsATimeWithoutTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := makeJob(t, "home", hourly(), "ONAPPEAR no")
		j.Repository = "LABEL=Blue/backup"
		w := newWorld(t, j)
		stop := w.begin()
		time.Sleep(30 * time.Minute)
		w.set(func() { w.mounted["Blue"] = true })
		w.changes <- struct{}{}
		time.Sleep(30 * time.Minute)
		require.Empty(t, w.runs())
		time.Sleep(30 * time.Minute)
		require.Equal(t, []string{"home schedule done"}, w.runs())
		require.NoError(t, stop())
	})
}

func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 10 * time.Minute, Result{} } })
		s, stop := w.orders()
		do := func(a control.Action, want string) {
			t.Helper()
			_, err := s.order(control.Command{Action: a, Job: "home"})
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
		_, err := s.order(control.Command{Action: control.StartJob, Job: "x"})
		require.EqualError(t, err, `no job "x": there are home`)
		do(control.StopJob, "job home does not run")
		do(control.ResumeJob, "job home is not paused")
		w.set(func() { w.power = machinestate.Power{OnBattery: true, Charge: 20} })
		do(control.StartJob, "")
		do(control.StartJob, "running already")
		require.Equal(t, "backup", only(t, s).Step)
		time.Sleep(3 * time.Minute)
		require.Equal(t, "running", only(t, s).State, "a person decides about the battery")
		do(control.StopJob, "")
		synctest.Wait()
		require.Equal(t, []string{"home hand stopped"}, w.runs())
		require.Equal(t, "idle", only(t, s).State)

		w.set(func() { w.power = machinestate.Power{} })
		do(control.StartJob, "")
		do(control.PauseJob, "")
		synctest.Wait()
		require.Equal(t, "paused", only(t, s).State)
		require.Zero(t, only(t, s).Next)
		do(control.StartJob, "job home is paused: 'tidemark job resume home' first")
		time.Sleep(5 * time.Hour)
		require.Empty(t, w.runs())
		do(control.ResumeJob, "")
		time.Sleep(11 * time.Minute)
		require.Equal(t, []string{"home hand done"}, w.runs())

		_, err = s.order(control.Command{Action: control.PauseJob, Until: w.Now()})
		require.ErrorContains(t, err, "which is over")
		_, err = s.order(control.Command{Action: control.PauseJob, Until: w.Now().Add(90 * time.Minute)})
		require.NoError(t, err)
		time.Sleep(85 * time.Minute)
		require.Empty(t, w.runs())
		time.Sleep(20 * time.Minute)
		require.Len(t, w.runs(), 1, "the pause is over")
		require.NoError(t, stop())
		_, err = s.order(control.Command{Action: control.ShowStatus})
		require.ErrorContains(t, err, "the service ends")
	})
}

// systemd hears what the service does: the loop itself sends the pings.
func TestServiceReportsToSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		var said []string
		w.config.Notify = func(state string) { w.set(func() { said = append(said, state) }) }
		count := func(state string) (n int) {
			w.set(func() {
				for _, one := range said {
					if one == state {
						n++
					}
				}
				said = nil
			})
			return n
		}
		w.config.Watchdog = 20 * time.Second
		w.result = func(Step) (time.Duration, Result) { return 2 * time.Minute, Result{} }
		s, stop := w.orders()
		synctest.Wait()
		require.Equal(t, 1, count("READY=1"))
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 60, count("WATCHDOG=1"), 5)
		time.Sleep(time.Minute)
		require.NotZero(t, count("STATUS=running: home (backup)"))
		_, err := s.order(control.Command{Action: control.Reload})
		require.NoError(t, err)
		require.Equal(t, 1, count("RELOADING=1"))
		require.NoError(t, stop())
		require.NotZero(t, count("STOPPING=1"))
	})
}

func TestPauseOutlivesTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		s, stop := w.orders()
		_, err := s.order(control.Command{Action: control.PauseJob})
		require.NoError(t, err)
		require.NoError(t, stop())
		stop = w.begin()
		time.Sleep(3 * time.Hour)
		require.Empty(t, w.runs())
		require.NoError(t, stop())
	})
}

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", hourly()), makeJob(t, "b", hourly())
		w := newWorld(t, a)
		w.config.OptionFile = filepath.Join(t.TempDir(), "options")
		change := func(content string, err error, jobs ...*job.Job) {
			w.mu.Lock()
			defer w.mu.Unlock()
			require.NoError(t, os.WriteFile(w.config.OptionFile, []byte(content), 0o600))
			w.loadErr, w.jobs = err, jobs
		}
		change("1", nil, a)
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 10 * time.Minute, Result{} } })
		s, stop := w.orders()
		time.Sleep(12 * time.Minute)
		require.Equal(t, []string{"a backup"}, w.started())
		change("12", nil, b)
		time.Sleep(2 * time.Minute)
		d, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Len(t, d.Jobs, 2, "the run of a goes on")
		require.Equal(t, "running", d.Jobs[1].State)
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"a schedule done"}, w.runs())
		require.Equal(t, "b", only(t, s).Name)

		_, err = s.order(control.Command{Action: control.StartJob, Job: "B"})
		require.NoError(t, err)
		_, err = s.order(control.Command{Action: control.PauseJob})
		require.NoError(t, err)
		synctest.Wait()
		change("12345", nil, a)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"b hand stopped"}, w.runs(), "a run that waits ends with its job")
		change("12", nil, b)
		time.Sleep(2 * time.Minute)
		_, err = s.order(control.Command{Action: control.ResumeJob})
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		w.take()

		change("123", errors.New("line 3 is wrong"), a)
		time.Sleep(2 * time.Minute)
		var notes []string
		for _, e := range w.take() {
			notes = append(notes, e.Text)
		}
		require.Equal(t, []string{"the option file cannot be used: line 3 is wrong; the jobs stay as they were"}, notes)
		_, err = s.order(control.Command{Action: control.Reload})
		require.EqualError(t, err, "line 3 is wrong")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"b schedule done"}, w.runs())
		change("1234", nil, a, b)
		time.Sleep(2 * time.Minute)
		d, err = s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.NotZero(t, d.Jobs[0].LastBackup, "what was known of a job is kept")
		require.NoError(t, stop())
	})
}

func TestSilenceIsReportedOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), "ALERTAFTER 72h"))
		w.set(func() {
			w.result = func(Step) (time.Duration, Result) { return 0, Result{ExitCode: 12, Message: "no"} }
		})
		silent := func() (n int) {
			for _, e := range w.take() {
				if e.Kind == record.Silent {
					n++
				}
			}
			return n
		}
		stop := w.begin()
		time.Sleep(72 * time.Hour)
		require.Zero(t, silent())
		time.Sleep(time.Hour)
		require.Equal(t, 1, silent())
		require.NoError(t, stop())
		stop = w.begin()
		time.Sleep(22 * time.Hour)
		require.Zero(t, silent(), "a restart does not repeat it")
		time.Sleep(48 * time.Hour)
		require.Equal(t, 2, silent())
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 0, Result{} } })
		time.Sleep(48 * time.Hour)
		require.Zero(t, silent())
		require.NoError(t, stop())
	})
}

// The steps after a backup, when they are due.
func TestStepsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := makeJob(t, "home", daily(), "KEEPSNAPSHOTS time-machine", "CHECKEVERY 24h", "DRILLEVERY 72h", "PRUNEEVERY 24h")
		w := newWorld(t, j)
		results := map[string]Result{"backup": {Summary: json.RawMessage(`{"message_type":"summary","snapshot_id":"abc"}`)}}
		w.set(func() { w.result = func(s Step) (time.Duration, Result) { return time.Minute, results[s.Name] } })
		s, stop := w.orders()
		time.Sleep(4 * time.Hour)
		require.Equal(t, []string{"home backup", "home forget", "home check", "home drill"}, w.started())
		require.Equal(t, "abc", only(t, s).LastRun.Snapshot)
		require.NotZero(t, only(t, s).LastProven)
		require.Nil(t, only(t, s).LastRun.Steps[0].Summary, "an answer has a limit")
		for _, e := range w.take() {
			if e.Kind == record.Finished {
				require.NotEmpty(t, e.Run.Steps[0].Summary)
			}
		}
		w.set(func() { results["forget"] = Result{Removed: 2} })
		time.Sleep(day)
		require.Equal(t, []string{"home backup", "home forget", "home prune", "home check"},
			w.started(), "there is unused data")
		w.set(func() { results["forget"] = Result{} })
		w.set(func() { results["check"] = Result{ExitCode: 1, Message: "damaged"} })
		time.Sleep(day)
		require.Equal(t, []string{"home backup", "home forget", "home check"}, w.started())
		require.Equal(t, "failed", only(t, s).LastRun.Outcome)
		require.Equal(t, "check: damaged", only(t, s).LastRun.Message)
		require.Equal(t, "abc", only(t, s).LastRun.Snapshot, "the snapshot stays")
		require.NoError(t, stop())
	})
}

// A full repository gets room by its policy and a prune, and the backup is tried again.
func TestFullRepositoryIsForgottenAndPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily(), "KEEPSNAPSHOTS time-machine", "CHECKEVERY 0s", "DRILLEVERY 0s",
			"PRUNEEVERY 24h"))
		full := true
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				switch {
				case s.Name == "backup" && full:
					return time.Minute, Result{ExitCode: 1, Message: "no space left", Full: true}
				case s.Name == "forget" && full:
					return time.Minute, Result{Removed: 3}
				case s.Name == "prune":
					full = false
				}
				return time.Minute, Result{}
			}
		})
		s, stop := w.orders()
		time.Sleep(4 * time.Hour)
		require.Equal(t, []string{"home backup", "home forget", "home prune", "home backup", "home forget"}, w.started())
		require.Equal(t, "done", only(t, s).LastRun.Outcome)
		require.NoError(t, stop())
	})
}

// A command after the backup that fails makes the run fail, but there is a backup.
func TestSnapshotCountsThoughTheRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily(), "KEEPSNAPSHOTS time-machine", "CHECKEVERY 0s", "DRILLEVERY 0s"))
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				if s.Name != "backup" {
					return time.Minute, Result{}
				}
				return time.Minute, Result{ExitCode: 1, Message: "after-command: exit code 1",
					Summary: json.RawMessage(`{"message_type":"summary","snapshot_id":"abc"}`)}
			}
		})
		s, stop := w.orders()
		time.Sleep(4 * time.Hour)
		require.Equal(t, []string{"home backup", "home forget"}, w.started(), "it is not made again")
		j := only(t, s)
		require.NotZero(t, j.LastBackup)
		require.Equal(t, "failed", j.LastRun.Outcome)
		require.Equal(t, "backup: after-command: exit code 1", j.LastRun.Message)
		require.NoError(t, stop())
	})
}

func TestOnceRunsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := makeJob(t, "a", daily()), makeJob(t, "b", daily())
		b.Repository, b.Sources = a.Repository, a.Sources
		w := newWorld(t, a, b)
		w.config.Once = true
		require.NoError(t, w.run(t.Context()))
		require.Empty(t, w.started(), "nothing is due")
		time.Sleep(day)
		require.NoError(t, w.run(t.Context()))
		require.Equal(t, []string{"a backup", "b backup"}, w.started())
		time.Sleep(day)
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return 0, Result{ExitCode: 12} } })
		require.ErrorIs(t, w.run(t.Context()), ErrFailed)
		time.Sleep(day)
		w.set(func() { w.power = machinestate.Power{OnBattery: true} })
		w.started()
		require.NoError(t, w.run(t.Context()))
		require.Empty(t, w.started())
	})
}

func TestStateFileThatCannotBeUsed(t *testing.T) {
	for _, content := range []string{"", "{", "[]", `{"version":9}`, `{"version":1,"jobs":{"home":7}}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, makeJob(t, "home", hourly()))
			require.NoError(t, os.MkdirAll(w.dir, 0o700))
			path := filepath.Join(w.dir, stateFile)
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			stop := w.begin()
			time.Sleep(15 * time.Minute)
			require.NoError(t, stop())
			events := w.take()
			require.Equal(t, record.Note, events[0].Kind)
			require.Contains(t, events[0].Text, "state.json cannot be used")
			require.Equal(t, []string{"home backup"}, w.started())
			kept, err := os.ReadFile(filepath.Join(w.dir, damagedFile))
			require.NoError(t, err)
			require.Equal(t, content, string(kept))
			s, problem := readState(w.dir)
			require.NoError(t, problem)
			require.Contains(t, s.Jobs, "home")
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"version":1,"jobs":{"home":null}}`), 0o600))
	s, problem := readState(dir)
	require.NoError(t, problem)
	require.Empty(t, s.Jobs)
}

func TestOneServiceForAStateFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	require.NoError(t, err)
	_, err = lock(dir)
	require.ErrorContains(t, err, "another service of this user is running; 'tidemark status' shows it")
	require.ErrorContains(t, err, dir)
	unlock()
	unlock, err = lock(dir)
	require.NoError(t, err)
	unlock()
}

func TestJitterIsFixed(t *testing.T) {
	seen := map[time.Duration]bool{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		j := makeJob(t, name, daily(), "SCHEDULEJITTER 1h")
		d := jitter(j, "here", day)
		require.Equal(t, d, jitter(j, "here", day))
		require.Less(t, d, time.Hour)
		require.Less(t, jitter(j, "here", 10*time.Minute), 5*time.Minute)
		seen[d] = true
	}
	require.Len(t, seen, 5)
}

// What macOS allows is checked outside the loop: it may wait for servers for seconds.
func TestAccessIsCheckedBesideTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, stop := w.orders()
		ask := control.Command{Action: control.CheckAccess}
		d, err := s.serveOrder(ask)
		require.NoError(t, err)
		require.Nil(t, d.Access, "not asked on this system")

		found := &event.Access{FullDisk: event.Denied, Servers: event.Unknown}
		s.Access = func() *event.Access {
			_, err := s.order(control.Command{Action: control.ShowStatus})
			require.NoError(t, err, "the loop answers meanwhile")
			return found
		}
		d, err = s.serveOrder(ask)
		require.NoError(t, err)
		require.Equal(t, found, d.Access)
		d, err = s.serveOrder(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		require.Nil(t, d.Access)
		require.NoError(t, stop())
	})
}
