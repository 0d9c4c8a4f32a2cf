package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// version is that of the lines of the record.
const version = 1

// The levels of a line of the log.
const (
	info    = "info"
	warning = "warning"
	failure = "error"
)

// The exit codes of a step that SIGINT or SIGTERM ended.
const (
	interrupted = 130
	terminated  = 143
)

// The outcomes of a run, as in event.Run.
const (
	Done       = "done"
	Incomplete = "incomplete"
	Failed     = "failed"
	Stopped    = "stopped"
)

// Recovered is the alert of the first run that was done after another alert.
const Recovered = "recovered"

// String returns the kind as in event.Log.
func (k Kind) String() string {
	return [...]string{"started", "progress", "step", "finished", "waiting", "resumed", "note", "loaded", "silent",
		"invalid", "stalled", "warning"}[k]
}

// Line returns the line of the log for e, in one line of text. The words of a backup are those of Time Machine's log.
// ok is false if e has no line.
func Line(e *Event) (line event.Log, ok bool) {
	level, text := words(e)
	if text == "" {
		return event.Log{}, false
	}
	line = event.Log{Type: "log", Version: version, Time: e.At, Job: e.Job, Kind: e.Kind.String(), Level: level,
		Text: strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")}
	if e.Run != nil && e.Kind != Silent {
		line.Run = e.Run.ID
	}
	return line, true
}

// work is what a job does: it makes backups, or copies those of another job.
func work(job string) (verb, noun string) {
	if strings.HasSuffix(job, options.CopySuffix) {
		return "copy", "Copy"
	}
	return "backup", "Backup"
}

func words(e *Event) (level, text string) {
	verb, noun := work(e.Job)
	switch e.Kind {
	case Started:
		return info, "Starting " + starting(e.Trigger, verb)
	case Progress:
		return info, progress(e)
	case StepEnded:
		return stepEnded(e)
	case Finished:
		return finished(e.Run)
	case Waiting:
		return info, noun + " is waiting: " + e.Text
	case Resumed:
		return info, noun + " goes on" + after(e.Text)
	case Loaded:
		return info, "Read the options: " + e.Text
	case Silent:
		return failure, "No " + verb + " for too long: " + e.Text
	case Invalid:
		return failure, "Invalid: " + e.Text
	case Stalled:
		return failure, "No progress: " + e.Step + ": " + e.Text
	case Warned:
		return warning, "Warning: " + e.Text
	}
	return warning, e.Text
}

// after returns text as the end of a sentence.
func after(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func starting(trigger event.Trigger, verb string) string {
	if trigger == event.ByHand {
		return "manual " + verb
	}
	return "automatic " + verb + map[event.Trigger]string{event.Missed: ": a scheduled time was missed",
		event.Appeared: ": the destination is back", event.Retried: ": the last one failed"}[trigger]
}

// progress formats "12.0 % done, 34.00 MiB/s, about 8 min left".
func progress(e *Event) string {
	s := e.Status
	if s == nil {
		return ""
	}
	parts := []string{human.Count(s.FilesDone) + " " + cmp.Or(s.Unit, "files") + " done"}
	if s.PercentDone > 0 {
		parts[0] = human.Percent(s.PercentDone) + " done"
	}
	parts = append(parts, human.Speed(s.BytesPerSecond))
	if s.SecondsRemaining != nil {
		parts = append(parts, "about "+human.About(time.Duration(*s.SecondsRemaining)*time.Second)+" left")
	}
	if s.TargetError != "" {
		parts = append(parts, "the target does not answer")
	}
	text := strings.Join(parts, ", ")
	if e.Step != "backup" {
		text = e.Step + ": " + text
	}
	return text
}

// stepEnded describes the last step of a run. A backup that failed has no line: the end of its run has one.
func stepEnded(e *Event) (level, text string) {
	if e.Run == nil || len(e.Run.Steps) == 0 {
		return info, ""
	}
	s := &e.Run.Steps[len(e.Run.Steps)-1]
	took := " in " + human.Span(s.End.Sub(s.Start))
	if s.Step == "backup" {
		sum := BackupOf(s)
		if sum == nil {
			return info, ""
		}
		return info, "Completed backup: " + backupWords(sum, took)
	}
	if s.ExitCode != 0 && s.Step == "copy" { // as a backup
		return info, ""
	}
	if s.ExitCode == interrupted || s.ExitCode == terminated {
		return info, s.Step + " stopped"
	}
	if s.ExitCode != 0 {
		return warning, s.Step + " failed: " + cmp.Or(s.Message, fmt.Sprintf("exit code %d", s.ExitCode))
	}
	var sum struct {
		Freed *int64 `json:"bytes_freed"`
		Bytes struct {
			Verified uint64 `json:"verified"`
		} `json:"bytes"`
	}
	_ = json.Unmarshal(s.Summary, &sum) // without figures, the line has none
	switch s.Step {
	case "check":
		return info, "Destination checked: " + human.Size(sum.Bytes.Verified) + " read back without a fault" + took
	case "prune":
		if sum.Freed != nil {
			return info, "Completed prune: " + human.Size(uint64(max(0, *sum.Freed))) + " freed" + took
		}
	}
	return info, "Completed " + s.Step + took
}

func finished(r *event.Run) (level, text string) {
	if r == nil {
		return info, ""
	}
	_, noun := work(r.Job)
	switch r.Outcome {
	case Failed:
		return failure, noun + " failed: " + cmp.Or(r.Message, "no reason is known")
	case Stopped:
		return warning, noun + " stopped" + after(r.Message)
	case Incomplete:
		return warning, noun + " incomplete" + after(r.Message)
	}
	return info, "Finished after " + human.Span(r.End.Sub(r.Start)) + after(r.Message)
}

// BackupOf returns the summary of a step that was a backup, nil if it has none.
func BackupOf(s *event.RunStep) *event.BackupSummary {
	sum := &event.BackupSummary{}
	if s.Step != "backup" || json.Unmarshal(s.Summary, sum) != nil {
		return nil
	}
	return sum
}

// backupWords describes a backup: its figures, the share of the time that it would not have taken alone, and the time
// without an answer of the target.
func backupWords(sum *event.BackupSummary, took string) string {
	text := human.Plural(sum.TotalFiles, "file") + ", " + human.Size(sum.Bytes.Read) + " read, " +
		human.Size(sum.DataAddedPacked) + " stored" + took
	if yielded := sum.Yielded(); yielded > 0 && sum.TotalDuration > 0 {
		text += fmt.Sprintf(", yielded %.0f %%", 100*yielded.Seconds()/sum.TotalDuration)
	}
	if away := time.Duration(sum.TargetAway * float64(time.Second)); away >= report.LeastOutage {
		text += ", " + human.Span(away) + " without an answer of the target"
	}
	return text
}
