package record

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunWithOwnMounts(m)) }

func day(hour int) time.Time { return time.Date(2026, 11, 23, hour, 0, 0, 0, time.UTC) }

func note(hour int, job, text string) *Event {
	return &Event{At: day(hour), Kind: Note, Job: job, Text: text}
}

// open opens a record whose warnings fail the test.
func open(t *testing.T, dir string) *Record {
	r, err := Open(dir, func(text string) { t.Error(text) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func texts(t *testing.T, dir string, f Filter) (all []string) {
	for line, err := range Read(dir, f) {
		require.NoError(t, err)
		all = append(all, line.Text)
	}
	return all
}

func TestRecordIsReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "tidemark")
	require.Empty(t, texts(t, dir, Filter{}), "a folder that does not exist")
	r := open(t, dir)
	run := &event.Run{ID: "r1", Job: "home", Start: day(2), End: day(3), Outcome: Failed, Message: "no\nspace",
		Steps: []event.RunStep{}}
	r.Event(&Event{At: day(1), Kind: Loaded, Text: "two jobs"})
	r.Event(&Event{At: day(2), Kind: Started, Job: "home", Trigger: "schedule", Run: run})
	r.Event(&Event{At: day(3), Kind: Finished, Job: "home", Run: run})
	r.Event(note(4, "web", "later"))
	require.Equal(t, []string{"Read the options: two jobs", "Starting automatic backup", "Backup failed: no; space",
		"later"},
		texts(t, dir, Filter{}))
	require.Equal(t, []string{"Starting automatic backup", "Backup failed: no; space"}, texts(t, dir, Filter{Job: "home"}))
	require.Equal(t, []string{"Backup failed: no; space", "later"}, texts(t, dir, Filter{Since: day(3)}))
	require.Equal(t, []string{"Backup failed: no; space", "later"}, texts(t, dir, Filter{Last: 2}))
	var runs []event.Run
	for run, err := range Runs(dir, Filter{Last: 1}) {
		require.NoError(t, err)
		runs = append(runs, run)
	}
	run.Type, run.Version = "run", 1
	require.Equal(t, []event.Run{*run}, runs)
	for range Read(dir, Filter{}) {
		break // a reader may stop
	}
}

func TestLineCutAtAnyByteIsSkipped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logName)
	r := open(t, dir)
	r.Event(note(1, "", "first"))
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	r.Event(note(2, "", "second"))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := len(first); n <= len(whole); n++ {
		require.NoError(t, r.Close())
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		want := []string{"first"}
		if n == len(whole) {
			want = append(want, "second")
		}
		require.Equal(t, want, texts(t, dir, Filter{}), "%d bytes", n)
		if n == len(whole)-1 {
			want = append(want, "second") // only the end of the line was missing
		}
		r.Event(note(3, "", "third"))
		require.Equal(t, append(want, "third"), texts(t, dir, Filter{}), "%d bytes", n)
	}
}

func TestFilesAreRotatedAndLimited(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.log.max = 1000
	for i := range 300 {
		r.Event(note(1, "", fmt.Sprint("line ", i)))
	}
	all := texts(t, dir, Filter{})
	require.Equal(t, "line 299", all[len(all)-1])
	for i, text := range all {
		require.Equal(t, fmt.Sprint("line ", 300-len(all)+i), text, "oldest first, without a gap")
	}
	files, err := filepath.Glob(filepath.Join(dir, logName+"*"))
	require.NoError(t, err)
	require.Len(t, files, kept+1)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(1000))
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.Equal(t, all[len(all)-5:], texts(t, dir, Filter{Last: 5}))
}

func TestReaderMissesNothingWhileFilesAreRotated(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.log.max = 20_000
	const total = 400 // fewer lines than all files hold, so that each is readable
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := make(chan time.Time)
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range total {
			r.Event(note(1, "", fmt.Sprint(i)))
		}
		close(tick)
	})
	next := 0
	for line, err := range Follow(ctx, dir, Filter{}, tick) {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(next), line.Text)
		if next++; next == total {
			break
		}
	}
	require.Equal(t, total, next)
	writing.Wait()
}

func TestReadersBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.log.max = 500
	var writing, reading sync.WaitGroup
	writing.Go(func() {
		for i := range 500 {
			r.Event(note(1, "", fmt.Sprintf("%03d", i)))
		}
	})
	for range 2 {
		reading.Go(func() {
			for range 50 {
				before := ""
				for line, err := range Read(dir, Filter{}) {
					if err != nil || line.Text <= before {
						t.Errorf("%q after %q: %v", line.Text, before, err)
					}
					before = line.Text
				}
			}
		})
	}
	reading.Wait()
	writing.Wait()
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range Follow(ctx, t.TempDir(), Filter{}, nil) {
		t.Error("a line of an empty record")
	}
}

func TestWordsOfTheLog(t *testing.T) {
	without := 60.0
	sum := event.BackupSummary{Type: "summary", TotalFiles: 1234, DataAddedPacked: 120 << 20, TotalDuration: 80}
	sum.Bytes.Read = 5 << 30
	sum.Without, sum.TargetAway = &without, 20
	summary, err := json.Marshal(&sum)
	require.NoError(t, err)
	step := func(name string, exit int, summary string) *Event {
		return &Event{Kind: StepEnded, Run: &event.Run{Steps: []event.RunStep{{Step: name, Start: day(1), ExitCode: exit,
			End: day(1).Add(192 * time.Second), Message: "why", Summary: json.RawMessage(summary)}}}}
	}
	left := uint64(480)
	run := func(outcome string) *Event {
		return &Event{Kind: Finished, Run: &event.Run{Outcome: outcome, Message: "why", Start: day(1), End: day(2)}}
	}
	for want, e := range map[string]*Event{
		"Starting automatic backup": {Kind: Started, Trigger: "schedule"},
		"Starting manual backup":    {Kind: Started, Trigger: "hand"},
		"12.0 % done, 34.00 MiB/s, about 8 min left": {Kind: Progress, Step: "backup",
			Status: &event.Status{PercentDone: 0.12, BytesPerSecond: 34 << 20, SecondsRemaining: &left}},
		"12.0 % done, 0 B/s, the target does not answer": {Kind: Progress, Step: "backup",
			Status: &event.Status{PercentDone: 0.12, TargetError: "connection refused"}},
		"prune: 7 packs done, 0 B/s": {Kind: Progress, Step: "prune", Status: &event.Status{FilesDone: 7, Unit: "packs"}},
		"Completed backup: 1,234 files, 5.00 GiB read, 120.00 MiB stored in 3 min 12 s, yielded 25 %, " +
			"20 s without an answer of the target": step("backup", 0, string(summary)),
		"":                               step("backup", 1, ""),
		"prune failed: why":              step("prune", 1, ""),
		"check failed: why":              step("check", 137, ""),
		"check stopped":                  step("check", 143, ""),
		"Completed forget in 3 min 12 s": step("forget", 0, "[]"),
		"Completed prune: 1.00 KiB freed in 3 min 12 s": step("prune", 0, `{"bytes_freed":1024}`),
		"Destination checked: 2.00 KiB read back without a fault in 3 min 12 s": step("check", 0,
			`{"bytes":{"verified":2048}}`),
		"Backup failed: why":              run(Failed),
		"Backup stopped: why":             run(Stopped),
		"Finished after 60 min 00 s: why": run(Done),
		"Backup is waiting: on battery":   {Kind: Waiting, Text: "on battery"},
		"Backup goes on":                  {Kind: Resumed},
		"No backup for too long: 3 days":  {Kind: Silent, Text: "3 days"},
		"Backup incomplete: why":          run(Incomplete),
	} {
		line, ok := Line(e)
		require.Equal(t, want != "", ok)
		require.Equal(t, want, line.Text)
	}
}
