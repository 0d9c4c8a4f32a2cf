package show

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
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
	parts := append(v.head(), v.speed.speeds(human.Speed, v.speeds.Bytes, v.speeds.BytesAverage)...)
	if v.outage != "" {
		parts = append(parts, v.doing())
	}
	for _, line := range v.yielding(anyWidth) {
		if !strings.HasPrefix(line, " ") { // else a hint
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, ", ")
}

// Watch calls step at once, then every so often and at each signal, until ctx ends.
func Watch(ctx context.Context, every time.Duration, also <-chan os.Signal, step func()) {
	step()
	repeat(ctx, every, also, step)
}

// viewOfStatus returns the view of a job of another process, nil if the job sent no status.
func viewOfStatus(j *event.Job, watched bool) *view {
	s := j.Status
	if s == nil {
		return nil
	}
	t := report.Totals{Job: jobOf(j.Job), Phase: phaseOf(s.Phase), Failures: s.ErrorCount}
	if s.Unit != "" {
		t.Step.Number = 1
	}
	t.Bytes.Transferred, t.Bytes.Fetched = s.BytesTransferred, s.BytesTransferred
	v := &view{job: t.Job, phase: t.Phase.String(), elapsed: time.Duration(s.SecondsElapsed) * time.Second,
		counts: t.Counts(), details: t.Details(), moved: t.Moved(), pid: j.PID}
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
	v.speeds = report.Speeds{Bytes: s.BytesPerSecond, Items: s.ItemsPerSecond, Left: -1, Limit: resourceOf(s.WaitingFor),
		BytesAverage: report.PerSecond(v.progress.Moved, v.elapsed), ItemsAverage: report.PerSecond(s.FilesDone, v.elapsed)}
	switch {
	case t.Step.Number > 0: // the step may have begun later than the job
		v.speed = speedNow
	case !watched:
		v.speed = speedAverage
	}
	if s.SecondsRemaining != nil {
		v.speeds.Left = time.Duration(*s.SecondsRemaining) * time.Second
	}
	for i := range s.Gates {
		v.gates = append(v.gates, gateOf(&s.Gates[i]))
	}
	v.outage = s.TargetError
	v.speeds.Stalled = make([]float64, len(v.gates))
	return v
}

// jobOf returns the job of a name.
func jobOf(name string) report.Kind {
	for _, j := range []report.Kind{report.Restore, report.Check, report.Prune, report.Copy} {
		if j.String() == name {
			return j
		}
	}
	return report.Backup
}

// phaseOf returns the phase of a key.
func phaseOf(key string) report.Phase {
	for p := report.Opening; p < report.Done; p++ {
		if p.Key() == key {
			return p
		}
	}
	return report.Done
}

// resourceOf returns the resource of a name.
func resourceOf(name string) report.Resource {
	for r := report.Finding; r <= report.Answer; r++ {
		if r.String() == name {
			return r
		}
	}
	return report.Nothing
}

// gateOf returns what the view shows of a gate.
func gateOf(g *event.Gate) report.Gate {
	out := report.Gate{Device: g.Device, Medium: g.Medium, Blamed: g.Blamed, Current: g.Current}
	if g.Raw != nil {
		out.Device = string(g.Raw)
	}
	for _, state := range []report.GateState{report.InWindow, report.Waiting} {
		if state.Key() == g.State {
			out.State = state
		}
	}
	return out
}
