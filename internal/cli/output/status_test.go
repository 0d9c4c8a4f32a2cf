package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// minutes is a time some minutes after now.
func minutes(now time.Time, n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }

// observed is a service with a job in each state, and a program beside it.
func observed(now time.Time) event.Overview {
	progress := &event.Status{Phase: "scanning", Totals: "estimated", PercentDone: 0.25, TotalBytes: 400, BytesDone: 100,
		TotalFiles: 40, FilesDone: 10, SecondsElapsed: 100}
	base := event.DaemonJob{Sources: []string{"/home/anna"}, Repository: "/srv/backup", LastBackup: minutes(now, -120),
		LastProven: minutes(now, -60)}
	job := func(name, state string, set func(*event.DaemonJob)) event.DaemonJob {
		j := base
		j.Name, j.State = name, state
		set(&j)
		return j
	}
	return event.Overview{
		Service: &event.Daemon{Type: "daemon", Version: 1, PID: 3, Jobs: []event.DaemonJob{
			job("home", "idle", func(j *event.DaemonJob) { j.Next = minutes(now, 90) }),
			job("mail", "running", func(j *event.DaemonJob) { j.Step, j.PID, j.Next = "backup", 7, minutes(now, 5) }),
			job("disk", "waiting", func(j *event.DaemonJob) {
				j.WaitsFor, j.Next = "the disk TIDE is not mounted", minutes(now, -5)
			}),
			job("nas", "retrying", func(j *event.DaemonJob) {
				j.Next, j.Failures, j.LastProven = minutes(now, 4), 2, time.Time{}
				j.LastRun = &event.Run{Outcome: "failed", Message: "backup: nas is\naway\x1b"}
			}),
			job("old", "paused", func(j *event.DaemonJob) { j.PausedUntil, j.LastBackup = minutes(now, 30), time.Time{} }),
		}},
		Jobs: []event.Job{
			{Type: "job", PID: 7, Job: "backup", Policy: "important", PolicyUntil: minutes(now, 10), Start: now,
				Status: progress},
			{Type: "job", PID: 9, Job: "run", Policy: "utility", Start: now.Add(-time.Minute),
				Command: []string{"tidemark", "run", "make\x1b"}},
		},
	}
}

func TestStatusOfTheService(t *testing.T) {
	now := time.Now()
	at := func(n int) string { return minutes(now, n).Local().Format(time.DateTime) }
	s := NewStatus(observed(now), proofs.Summary{}, 0, now)
	last := "  last backup " + at(-120) + ", 2 h 00 min ago; last proven " + at(-60) + ", 1 h 00 min ago\n"
	place := "  /home/anna to /srv/backup\n"
	require.Equal(t, "home: idle, next run "+at(90)+", in 1 h 30 min\n"+place+last+
		"mail: running, backup, process 7\n"+place+
		"  backing up, ~25.0 % done, 00:01:40 elapsed\n"+
		"  policy important"+ending(minutes(now, 10))+", 10 min left\n"+
		"  10 of ~40 items, 0.10 items/s on average\n  100 B of ~400 B, sent 0 B\n  read 0 B, 0 B/s on average\n"+last+
		"disk: waiting (the disk TIDE is not mounted), due since "+at(-5)+"\n"+place+last+
		"nas: retrying, next run "+at(4)+", in 4 min\n"+place+
		"  last backup "+at(-120)+", 2 h 00 min ago; last proven never\n  2 runs failed: backup: nas is; away\\x1b\n"+
		"old: paused until "+at(30)+"\n"+place+"  the service has not run it yet; last proven "+at(-60)+", 1 h 00 min ago\n"+
		"run, process 9\n  tidemark run make\\x1b\n  policy utility\n  00:01:00 elapsed\n", text(t, s))

	for _, width := range []int{20, 79, 199} {
		s.Width = width
		for _, line := range s.Lines() {
			require.LessOrEqual(t, human.Columns(line.Text), width)
		}
	}
	require.Equal(t, 3, strings.Count(text(t, StatusLog(s)), "\n"), "what runs and what waits")
	require.Contains(t, text(t, StatusLog(s)), "mail: backup: policy important until ")
}

func TestAStatusShowsWarnings(t *testing.T) {
	r := event.Run{Job: "home", Outcome: "stopped", Message: "stopped by hand",
		Warnings: []string{"source /a: 9 of 9 files"}}
	s := NewStatus(event.Overview{Service: &event.Daemon{Jobs: []event.DaemonJob{{Name: "home", State: "idle",
		Failures: 3, LastRun: &r}}}}, proofs.Summary{}, 0, time.Now())
	require.Contains(t, text(t, s), "  3 runs failed\n  warning: source /a: 9 of 9 files\n", "it was stopped")
	runs := text(t, Runs([]event.Run{r}))
	require.Contains(t, runs, "stopped by hand\n")
	require.Contains(t, runs, "source /a: 9 of 9 files\n")
}

// A terminal that is narrow breaks a message at its blanks; a command stays whole, to be copied.
func TestAStatusCutsNoMessage(t *testing.T) {
	const command = "'tidemark backup --expect-shrink --job home --option-file /etc/tidemark/tidemark.opt'"
	s := NewStatus(event.Overview{Service: &event.Daemon{Jobs: []event.DaemonJob{{Name: "home", State: "idle",
		Incomplete: 1, LastRun: &event.Run{Outcome: "incomplete", Message: "source: /photos is empty. If that is right, " +
			"run once: " + command + "; 'tidemark log --run 1 --failed' lists them"}}}}}, proofs.Summary{}, 0, time.Now())
	s.Width = 60
	require.Contains(t, text(t, s), "  1 run incomplete: source: /photos is empty. If that is\n  right, run once:\n"+
		"  "+command+";\n  'tidemark log --run 1 --failed' lists them\n")
}

// Of two long paths both ends stay, and a terminal breaks sentences at their blanks.
func TestNothingIsCutInsideAWord(t *testing.T) {
	s := NewStatus(event.Overview{Service: &event.Daemon{Jobs: []event.DaemonJob{{Name: "home", State: "idle",
		Sources: []string{"/home/ann/Documents/projects/2026"}, Repository: "/mnt/disk/backups/of/ann/repository"}}}},
		proofs.Summary{}, 0, time.Now())
	s.Width = 50
	require.Contains(t, text(t, s), "\n  /home/a…/projects/2026 to /mnt/di…ann/repository\n")
	s.Service.Jobs[0].Sources = []string{"/home"}
	require.Contains(t, text(t, s), "\n  /home to /mnt/disk/backups/of/ann/repository\n")
	for _, record := range []Record{
		LogLine(&event.Log{Job: "home", Text: strings.Repeat("word ", 30) + "end"}),
		Decision(strings.Repeat("/folder and ", 9)+"end", rules.Decision{}),
	} {
		page := &show.Page{Width: 60}
		record.Text(page)
		for line := range strings.Lines(page.String()) {
			require.LessOrEqual(t, human.Columns(strings.TrimSpace(line)), page.Width)
		}
		require.Equal(t, strings.Fields(text(t, record)), strings.Fields(page.String()))
	}
}

func TestStatusWithoutTheService(t *testing.T) {
	now := time.Now()
	o := event.Overview{Repository: "/srv/\x1b", Problems: []string{"process 7:\nno \x1b answer"}}
	s := NewStatus(o, proofs.Summary{}, 0, now)
	require.Equal(t, "no backup of this machine to /srv/\\x1b is known\nthe service is not running\n"+
		"process 7:; no \\x1b answer\n", text(t, s))
	require.Equal(t, day(now)+" process 7:; no \\x1b answer\n", text(t, StatusLog(s)))
	s.LastBackup, s.Problems = minutes(now, -5), nil
	require.Contains(t, text(t, s), "no job of this user is running\n")
	s.Proven = proofs.Summary{Checked: now, Packs: 3, Since: now, Drill: proofs.Drill{At: now, Files: 2}}
	got := text(t, s)
	s.Proven.Unproven, s.Proven.Damage.Problems = 1, 1
	require.Contains(t, text(t, s), "last check: of 3 packs, damaged, or never read back: 1; the others were intact at ")
	s.Proven.Unproven, s.Proven.Damage.Problems = 0, 0
	require.Contains(t, got, "last backup "+day(s.LastBackup)+", 5 min ago, to /srv/\\x1b\n")
	require.Contains(t, got, "last check: every pack (3) was read back and intact")
	require.Contains(t, got, "last sample: restored 2 files")
	require.Equal(t, day(now)+" no job of this user is running\n", text(t, StatusLog(s)))
	s.Service = &event.Daemon{}
	require.Equal(t, "the service has no jobs: see 'tidemark job'\n", text(t, s))
}

func TestStatusIsOneObject(t *testing.T) {
	now := time.Now()
	for _, o := range []event.Overview{{}, observed(now)} {
		s := NewStatus(o, proofs.Summary{Checked: now}, 0, now)
		events := s.Events()
		require.Len(t, events, 1)
		line, err := json.Marshal(events[0])
		require.NoError(t, err)
		var got struct {
			Type   string           `json:"message_type"`
			Jobs   []map[string]any `json:"jobs"`
			Proven map[string]any   `json:"proven"`
		}
		require.NoError(t, json.Unmarshal(line, &got))
		require.Equal(t, "overview", got.Type)
		require.NotNil(t, got.Jobs, "a list even if it is empty")
		require.Len(t, got.Jobs, len(o.Jobs))
		require.Equal(t, "last_verified", got.Proven["message_type"])
	}
}

func TestPoliciesForATime(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	far := time.Now().Add(48 * time.Hour)
	change := event.PolicyChange{PID: 7, Was: "throttle", Policy: "important", Until: far}
	require.Equal(t, "process 7: important until "+day(far)+", it was throttle\n", text(t, PolicyChange(change)))
	change.Was = "important"
	require.Equal(t, "process 7: important until "+day(far)+"\n", text(t, PolicyChange(change)))
	running := event.Job{PID: 7, Policy: "important", PolicyUntil: soon, Start: time.Now()}
	require.Contains(t, text(t, Jobs([]event.Job{running})), "important until ")
}
