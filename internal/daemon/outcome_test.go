package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// lacking is the result of a backup whose snapshot lacks two objects.
func lacking() Result {
	return Result{ExitCode: exitIncomplete, Message: "some objects could not be backed up",
		Summary:  []byte(`{"message_type":"summary","snapshot_id":"abc","sources":[{"path":"/a","state":"ok"}]}`),
		Failures: Failures{Count: 12, First: []string{"/a/x: open: permission denied", "/a/y: read: input/output error"}}}
}

// sourcesAre is the result of a backup whose sources are in these states, as "path state".
func sourcesAre(code int, states ...string) Result {
	var all []string
	for _, s := range states {
		path, state, _ := strings.Cut(s, " ")
		all = append(all, fmt.Sprintf(`{"path":%q,"state":%q}`, path, state))
	}
	return Result{ExitCode: code, Message: "it is incomplete",
		Summary: []byte(`{"message_type":"summary","snapshot_id":"abc","sources":[` + strings.Join(all, ",") + `]}`)}
}

func TestAFailureWithoutAnObjectHasNoEmptyName(t *testing.T) {
	e := event.Error{Op: "check snapshot"}
	e.Error.Text = "no such pack"
	require.Equal(t, "check snapshot: no such pack", oneFailure(&e))
	e.Item = "/a"
	require.Equal(t, "/a: check snapshot: no such pack", oneFailure(&e))
}

// The messages of stores are for a person who runs a command; the service runs it by itself.
func TestNoMessageAsksToRunTheCommandOfTheService(t *testing.T) {
	o := output{}
	_, err := fmt.Fprintln(&o, `{"message_type":"error","error":{"message":"see that nas is up, and run the command `+
		`again"},"op":"read","item":"/a"}`+"\n"+`{"message_type":"exit_error","message":"nas is away: see that it is up, `+
		`and run the command again; what was stored so far is kept"}`)
	require.NoError(t, err)
	r := o.result(1)
	require.Equal(t, "nas is away: see that it is up, and the service tries again; what was stored so far is kept",
		r.Message)
	require.Equal(t, []string{"/a: read: see that nas is up, and the service tries again"}, r.Failures.First)
}

// A person types a command of a message as it is.
func TestNoCommandIsCut(t *testing.T) {
	var e event.Error
	e.Op, e.Item = "source", "/photos"
	long := strings.Repeat("x", 300)
	const asks = "it is empty. If that is right, run once: 'tidemark backup --job home --option-file /"
	for text, want := range map[string]string{
		long:                              long[:200] + "...",
		asks + long + "'":                 asks + long + "'",
		"'tidemark check' shows; " + long: "'tidemark check' shows; " + long[:176] + "...",
		long + ": run 'tidemark check /" + long + "'": long[:200] + "... 'tidemark check /" + long + "'",
	} {
		e.Error.Text = text
		require.Equal(t, "/photos: source: "+want, oneFailure(&e))
	}
}

func TestAWarningOfABackupIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), `KEEPSNAPSHOTS "last 3"`))
		result := Result{Summary: []byte(`{"snapshot_id":"a","warnings":["source /a: 300 of 400 files"]}`)}
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return time.Minute, result } })
		s, stop := w.orders()
		warned := func() (all []string) {
			for _, e := range w.take() {
				if line, _ := record.Line(&e); e.Kind == record.Warned {
					all = append(all, strings.TrimSpace(e.Alert+" "+line.Text))
				}
			}
			return all
		}
		time.Sleep(15 * time.Minute)
		require.Equal(t, []string{"warning Warning: source /a: 300 of 400 files"}, warned())
		require.Equal(t, []string{"source /a: 300 of 400 files"}, only(t, s).LastRun.Warnings)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"Warning: source /a: 300 of 400 files"}, warned(), "it was reported")
		w.set(func() { result = Result{Summary: []byte(`{"snapshot_id":"a"}`)} })
		time.Sleep(time.Hour)
		require.Empty(t, warned())
		require.Empty(t, only(t, s).LastRun.Warnings)
		w.set(func() { result = Result{ExitCode: exitSignal + 9} })
		time.Sleep(time.Hour)
		require.Contains(t, only(t, s).LastRun.Message, "backup: it was killed (signal 9), perhaps for lack of memory")
		require.NoError(t, stop())
	})
}

func TestAnIncompleteRunNamesWhatItLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly(), `KEEPSNAPSHOTS "last 3"`, "PRUNEEVERY 1h"))
		result := lacking()
		w.set(func() { w.result = func(Step) (time.Duration, Result) { return time.Minute, result } })
		s, stop := w.orders()
		alerts := func() (all []string) {
			for _, e := range w.take() {
				if e.Kind == record.Finished {
					all = append(all, e.Run.Outcome+" "+e.Alert)
				}
			}
			return all
		}
		time.Sleep(15 * time.Minute)
		require.Equal(t, []string{"incomplete "}, alerts(), "the first one may mend itself")
		j := only(t, s)
		require.Equal(t, "incomplete", j.State)
		require.Zero(t, j.LastBackup, "it is no complete backup")
		require.EqualValues(t, 12, j.LastRun.Steps[0].Failed)
		require.Equal(t, "/a/x: open: permission denied\n/a/y: read: input/output error\nand 10 more\n'tidemark log --run "+
			j.LastRun.ID+" --failed' lists them\nKEEPSNAPSHOTS removes nothing while the snapshot is incomplete",
			j.LastRun.Message)
		require.Equal(t, []string{"home backup"}, w.started(), "it removes nothing")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"incomplete incomplete"}, alerts())
		time.Sleep(time.Hour)
		require.Equal(t, []string{"incomplete "}, alerts(), "it was reported")
		w.set(func() { result = sourcesAre(exitIncomplete, "/a ok", "/photos empty", "/b missing") })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"incomplete incomplete"}, alerts(), "a whole source is reported at once")
		require.Contains(t, only(t, s).LastRun.Message, "source /photos is empty\nsource /b is missing")
		w.set(func() { result = Result{ExitCode: 12, Message: "wrong key"} })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"failed failed"}, alerts())
		w.set(func() { result = lacking() })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"incomplete incomplete"}, alerts(), "backups do not succeed again")
		require.Zero(t, only(t, s).Failures)
		w.started()
		w.set(func() { result = Result{Summary: []byte(`{"snapshot_id":"a","retention_waits":"/a shrank"}`)} })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"done recovered"}, alerts())
		require.Equal(t, []string{"home backup"}, w.started())
		require.Equal(t, "/a shrank, so KEEPSNAPSHOTS removes nothing", only(t, s).LastRun.Message)
		w.set(func() { result = sourcesAre(0, "/a ok") })
		time.Sleep(time.Hour)
		require.Equal(t, []string{"done "}, alerts())
		require.Equal(t, []string{"home backup", "home forget"}, w.started())
		require.NotZero(t, only(t, s).LastBackup)
		require.NoError(t, stop())
	})
}

func TestOnceReportsAnIncompleteRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "a", daily()))
		w.config.Once = true
		w.result = func(Step) (time.Duration, Result) { return 0, lacking() }
		require.NoError(t, w.run(t.Context()))
		time.Sleep(day)
		require.ErrorIs(t, w.run(t.Context()), ErrIncomplete)
	})
}

// The objects come from what a step prints, and all of them stay beside the record of the run.
func TestIncompleteNamesSourcesAndObjects(t *testing.T) {
	dir := t.TempDir()
	path := record.FailedFile(dir, "r1", "backup")
	o := output{list: failureList{path: path}}
	_, err := fmt.Fprintln(&o, `{"message_type":"remark","error":{"message":"no"},"op":"set owner","item":"/r"}`)
	require.NoError(t, err)
	require.NoFileExists(t, path)
	const total = 25
	for i := range total {
		_, err := fmt.Fprintf(&o, `{"message_type":"error","error":{"message":"permission denied"},"during":"archival",`+
			`"op":"open","item":"/a/%d%s"}`+"\n", i, strings.Repeat("x", 300))
		require.NoError(t, err)
	}
	o.end()
	got := o.result(exitIncomplete).Failures
	require.EqualValues(t, total, got.Count)
	require.Len(t, got.First, shownFailures)
	require.Regexp(t, `^/a/0x+\.\.\.: open: permission denied$`, got.First[0])
	var all []event.Error
	for e, err := range record.FailedObjects(dir, "r1") {
		require.NoError(t, err)
		all = append(all, e)
	}
	require.Len(t, all, total)
	require.Equal(t, "/a/24"+strings.Repeat("x", 300), all[total-1].Item)
	for range record.FailedObjects(dir, "r") {
		t.Error("another run")
	}
	require.NoError(t, os.Chmod(path, 0o600))
	r := run{rec: event.Run{ID: "r1"}, job: makeJob(t, "home", hourly(), "KEEPSNAPSHOTS all"),
		sources: []event.Source{{Path: event.NewPath("/a"), State: "whole"},
			{Path: event.NewPath("/b"), State: "unreadable"}}}
	require.Equal(t, "source /b is unreadable\n/x: open: no\n'tidemark log --run r1 --failed' lists them",
		r.describeLack("", &Failures{Count: 1, First: []string{"/x: open: no"}}))
	require.Equal(t, "source /b is unreadable", r.describeLack("it is incomplete", &Failures{}))
}

// What follows from a sequence of outcomes: d done, i incomplete, s a source is missing, t another one, f failed,
// x stopped.
func TestTheVerdictIsTrue(t *testing.T) {
	for runs, want := range map[string]string{
		"dd":      "- -",
		"ffxfd":   "failed - - - recovered",
		"id":      "- -",
		"iid":     "- incomplete recovered",
		"ixi":     "- - incomplete",
		"ifid":    "- failed incomplete recovered",
		"iiii":    "- incomplete - -",
		"ssd":     "incomplete - recovered",
		"ststd":   "incomplete incomplete incomplete incomplete recovered",
		"siid":    "incomplete incomplete - recovered",
		"fid":     "failed - recovered",
		"fif":     "failed - -",
		"fifi":    "failed - - incomplete",
		"fsfd":    "failed incomplete failed recovered",
		"fxxd":    "failed - - recovered",
		"fdfdisd": "failed recovered failed recovered - incomplete recovered",
	} {
		var m memory
		var got []string
		for _, c := range runs {
			r := &run{}
			switch c {
			case 'f':
				r.failure = "why"
			case 'i':
				r.backup = exitIncomplete
			case 's', 't':
				r.backup, r.sources = exitIncomplete, []event.Source{{Path: event.NewPath(string(c)), State: "missing"}}
			case 'x':
				r.end = stopped
			}
			m.conclude(r, time.Now())
			alert := m.Alert
			if alert == "" {
				alert = "-"
			}
			got = append(got, alert)
		}
		require.Equal(t, want, strings.Join(got, " "), runs)
	}
}
