package daemon

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
)

// group returns the jobs of a stanza "home" with these repositories, named home@1, home@2 and so on.
func group(t *testing.T, repositories ...string) (all []*job.Job) {
	for i, repository := range repositories {
		j := makeJob(t, "home", hourly(), "ALERTAFTER 5h")
		j.Group, j.Name, j.Repository = "home", "home@"+string(rune('1'+i)), repository
		all = append(all, j)
	}
	return all
}

// starts returns which jobs began.
func (w *world) starts() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.events {
		if e := &w.events[i]; e.Kind == record.Started {
			names = append(names, e.Job)
		}
	}
	return names
}

func TestRepositoriesOfAJobTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group(t, "LABEL=Blue/b", "LABEL=Red/b", "LABEL=Green/b")...)
		connect := func(labels ...string) {
			w.set(func() {
				for _, label := range []string{"Blue", "Red", "Green"} {
					w.mounted[label] = slices.Contains(labels, label)
				}
			})
		}
		connect("Blue", "Red")
		s, stop := w.orders()
		time.Sleep(3*time.Hour + 20*time.Minute + 30*time.Second) // disks come between two looks
		require.Equal(t, []string{"home@1", "home@2", "home@1", "home@2"}, w.starts(), "one run an hour, in turn")

		connect("Green") // the one that was never written is behind all others, and runs as soon as it is there
		time.Sleep(3 * time.Hour)
		require.Equal(t, []string{"home@3", "home@3", "home@3"}, w.starts()[4:7])

		connect("Blue", "Red", "Green")
		time.Sleep(5 * time.Minute)
		before := len(w.starts())
		_, err := s.order(control.Command{Action: control.StartJob, Job: "home"})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.Len(t, w.starts(), before+1, "by hand, the group makes one run")
		require.Equal(t, []string{"home@1", "home@2"}, w.starts()[before-1:], "the first one was waiting for its disk")
		_, err = s.order(control.Command{Action: control.StartJob, Job: "home@3"})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.Equal(t, "home@3", w.starts()[before+1], "one of them by name")

		connect() // silence is of the group
		time.Sleep(7 * time.Hour)
		var silent []string
		for _, e := range w.events {
			if e.Kind == record.Silent {
				silent = append(silent, e.Job)
			}
		}
		require.Equal(t, []string{"home@1"}, silent, "once, although two disks had no backup for longer")

		d, err := s.order(control.Command{Action: control.ShowStatus})
		require.NoError(t, err)
		for _, j := range d.Jobs {
			require.NotNil(t, j.LastBackup, j.Name)
		}
		require.NotEqual(t, d.Jobs[0].LastBackup, d.Jobs[1].LastBackup, "each has a last backup of its own")
		require.NoError(t, stop())
	})
}

func TestTheNextRepositoryIsTriedIfOneIsNotReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group(t, "smb://me@a/b", "smb://me@b/b")...)
		away := "smb://me@a/b"
		w.set(func() {
			w.result = func(s Step) (time.Duration, Result) {
				i := slices.Index(s.Args, "--repo")
				if i < 0 || strings.HasPrefix(s.Args[i+1], away) && away != "" {
					return time.Second, Result{ExitCode: exitNoRepo, Message: "no route to host"}
				}
				return time.Minute, Result{}
			}
		})
		_, stop := w.orders()
		time.Sleep(3*time.Hour + 5*time.Minute)
		require.Equal(t, []string{"home@1", "home@2"}, w.starts()[:2])
		done, alerts := 0, 0
		for _, e := range w.events {
			if e.Kind != record.Finished {
				continue
			}
			if e.Run.Outcome == record.Done {
				done++
				require.Equal(t, "home@2", e.Job)
			}
			if e.Alert == record.Failed {
				alerts++
			}
		}
		require.GreaterOrEqual(t, done, 3, "each hour")
		require.Zero(t, alerts, "while the other works")
		w.set(func() { away = "smb:" })
		time.Sleep(2 * time.Hour)
		alerts = 0
		for _, e := range w.events {
			if e.Kind == record.Finished && e.Alert == record.Failed {
				alerts++
			}
		}
		require.NotZero(t, alerts, "none works")
		require.NoError(t, stop())
	})
}

// A repository that is not reached is reported if the other one is on a disk that is not there.
func TestAFailureIsReportedIfNoOtherRepositoryCanBeUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group(t, "smb://me@a/b", "LABEL=Blue/b")...)
		w.set(func() {
			w.result = func(Step) (time.Duration, Result) {
				return time.Second, Result{ExitCode: exitNoRepo, Message: "no route to host"}
			}
		})
		_, stop := w.orders()
		time.Sleep(2 * time.Hour)
		require.NoError(t, stop())
		alerts := 0
		for _, e := range w.events {
			if e.Kind == record.Finished && e.Alert == record.Failed {
				alerts++
			}
		}
		require.Equal(t, 1, alerts)
	})
}

// A repository that is named in another order, or replaced, has no backup of its predecessor.
func TestARepositoryKeepsItsOwnMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, group(t, "/a", "/b")...)
		s, stop := w.orders()
		time.Sleep(80 * time.Minute)
		status := func() (last []bool) {
			d, err := s.order(control.Command{Action: control.ShowStatus})
			require.NoError(t, err)
			for _, j := range d.Jobs {
				last = append(last, j.LastBackup != nil)
			}
			return last
		}
		require.Equal(t, []bool{true, true}, status())
		w.set(func() { w.jobs = group(t, "/b", "/a") })
		w.reloads <- syscall.SIGHUP
		time.Sleep(time.Second)
		require.Equal(t, []bool{false, false}, status(), "what was written to /a counts for /b")
		require.NoError(t, stop())
	})
}

// withCopies returns a job and the one that copies its snapshots.
func withCopies(t *testing.T) []*job.Job {
	first, copies := makeJob(t, "home", hourly()), makeJob(t, "home", hourly())
	copies.Group, copies.Name, copies.Server, copies.Copies = "home", "home@copy", "home@copy", true
	copies.Repository = "LABEL=Second/b"
	return []*job.Job{first, copies}
}

// A copy follows each backup, waits for its disk, and holds no backup up.
func TestCopiesFollowBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withCopies(t)...)
		long := false
		w.result = func(s Step) (time.Duration, Result) {
			if s.Name == copyStep {
				require.Subset(t, s.Args, []string{"--new", "--server-name", "home@copy", "--exact-paths", "--path", "/home"})
				require.NotContains(t, s.Args, "--repo")
				if long {
					return 150 * time.Minute, Result{}
				}
			}
			return time.Minute, Result{}
		}
		s, stop := w.orders()
		time.Sleep(time.Hour + 50*time.Minute)
		require.Equal(t, []string{"home", "home"}, w.starts(), "without its disk, no copy begins")

		w.set(func() { w.mounted["Second"] = true })
		time.Sleep(10 * time.Minute)
		require.Equal(t, []string{"home", "home", "home@copy"}, w.starts(), "what was missed is one run")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"home", "home@copy"}, w.starts()[3:])
		require.Equal(t, []string{"home backup", "home@copy copy"}, w.steps[len(w.steps)-2:])

		_, err := s.order(control.Command{Action: control.StartJob, Job: "home"})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.Equal(t, []string{"home", "home@copy"}, w.starts()[5:], "also after a backup by hand")

		w.set(func() { long = true })
		time.Sleep(2*time.Hour + time.Minute)
		var backups int
		for _, name := range w.starts()[7:] {
			if name == "home" {
				backups++
			}
		}
		require.Equal(t, 2, backups, "a long copy holds no backup up")
		require.NoError(t, stop())
	})
}

// A copy that fails is a failure of its own job, and is tried again; the backup succeeded.
func TestACopyFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withCopies(t)...)
		w.mounted["Second"] = true
		w.result = func(s Step) (time.Duration, Result) {
			if s.Name == copyStep {
				return time.Minute, Result{ExitCode: exitFailed, Message: "no"}
			}
			return time.Minute, Result{}
		}
		_, stop := w.orders()
		for len(w.starts()) < 2 {
			time.Sleep(time.Minute)
		}
		time.Sleep(5 * time.Minute) // no backup is due
		outcomes := map[string]string{}
		for _, e := range w.events {
			if e.Kind == record.Finished {
				outcomes[e.Run.Job] = e.Run.Outcome
			}
		}
		require.Equal(t, map[string]string{"home": record.Done, "home@copy": record.Failed}, outcomes)
		require.Equal(t, []string{"home", "home@copy", "home@copy"}, w.starts(), "it is tried again")
		require.NoError(t, stop())
	})
}
