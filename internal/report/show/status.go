package show

import (
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// StatusLines lays out the progress of a job of another process in the words of the progress view. watched: the job is
// asked every second, so that its present speed is known. A job without a status has no lines.
func StatusLines(j *event.Job, watched bool, width int) []Line {
	v := viewOfStatus(j, watched)
	if v == nil {
		return nil
	}
	return v.lines(width, j.Status.CurrentFiles)
}

// StatusLog is StatusLines in one line, for output that scrolls; "" without a status.
func StatusLog(j *event.Job) string {
	v := viewOfStatus(j, true)
	if v == nil {
		return ""
	}
	const anyWidth = 1 << 16
	parts := append(v.head(), v.rates(human.Speed, v.speeds.Bytes, v.speeds.BytesAverage)...)
	if v.Outage.Why != "" {
		parts = append(parts, v.doing())
	}
	for _, line := range v.yielding(anyWidth) {
		if !strings.HasPrefix(line, " ") { // else a hint
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, ", ")
}

// viewOfStatus returns the view of a job of another process, nil if the job sent no status.
func viewOfStatus(j *event.Job, watched bool) *view {
	s := j.Status
	if s == nil {
		return nil
	}
	t := &report.Totals{Job: named(j.Job, report.Copy, report.Backup, report.Kind.String), PID: j.PID,
		Phase:   named(s.Phase, report.Done, report.Done, report.Phase.Key),
		Elapsed: time.Duration(s.SecondsElapsed) * time.Second, Failures: s.ErrorCount}
	if s.Unit != "" {
		t.Step.Number = 1
	}
	t.Bytes.Transferred, t.Bytes.Fetched, t.Outage.Why = s.BytesTransferred, s.BytesTransferred, s.TargetError
	v := &view{Totals: t, details: t.Details()}
	if t.Job == report.Backup {
		v.details = v.details[1:] // the status has no figure of new data
	}
	v.progress = report.Progress{
		Objects: s.FilesDone, Bytes: s.BytesDone, ObjectsTotal: s.TotalFiles, BytesTotal: s.TotalBytes, Moved: s.BytesDone,
		Known: s.Totals == "exact" || s.Totals == "estimated", Exact: s.Totals == "exact", Growing: s.Totals == "growing",
		Unit: s.Unit,
	}
	if t.Job == report.Backup {
		v.progress.Moved = s.BytesRead
	}
	v.speeds = report.Speeds{Bytes: s.BytesPerSecond, Items: s.ItemsPerSecond, Left: -1,
		Limit:        named(s.WaitingFor, report.Answer, report.Nothing, report.Resource.String),
		BytesAverage: report.PerSecond(v.progress.Moved, t.Elapsed), ItemsAverage: report.PerSecond(s.FilesDone, t.Elapsed)}
	switch {
	case t.Step.Number > 0: // the step may have begun later than the job
		v.unknown.average = true
	case !watched:
		v.unknown.now = true
	}
	if s.SecondsRemaining != nil {
		v.speeds.Left = time.Duration(*s.SecondsRemaining) * time.Second
	}
	for i := range s.Gates {
		t.Gates = append(t.Gates, gateOf(&s.Gates[i]))
	}
	v.speeds.Stalled = make([]float64, len(t.Gates))
	return v
}

// named returns the value up to last that is called name, or otherwise.
func named[T ~uint8](name string, last, otherwise T, called func(T) string) T {
	for v := range last + 1 {
		if called(v) == name {
			return v
		}
	}
	return otherwise
}

// gateOf returns what the view shows of a gate.
func gateOf(g *event.Gate) report.Gate {
	out := report.Gate{Device: g.Device, Medium: g.Medium, Blamed: g.Blamed, Current: g.Current,
		State: named(g.State, iopolicy.Waiting, iopolicy.Disengaged, report.StateKey)}
	if g.Raw != nil {
		out.Device = string(g.Raw)
	}
	return out
}
