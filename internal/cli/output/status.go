package output

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Status is the state of the service, the running jobs and the default repository.
type Status struct {
	event.Overview
	Proven  proofs.Summary // of the default repository
	Now     time.Time
	Width   int  // in columns
	Watched bool // it is asked every second, so that present speeds are known
}

// NewStatus returns the record of an overview. limit is that of Verdict.
func NewStatus(o event.Overview, proven proofs.Summary, limit time.Duration, now time.Time) *Status {
	const anyWidth = 1 << 16
	o.Type = "overview"
	if o.Jobs == nil {
		o.Jobs = []event.Job{}
	}
	for _, e := range (&Proven{proven}).Events() {
		o.Proven = e
	}
	o.Verdict = Verdict(&o, &proven, limit, now)
	return &Status{Overview: o, Proven: proven, Now: now, Width: anyWidth}
}

// Events returns the overview.
func (s *Status) Events() []any { return []any{&s.Overview} }

// Text writes a block of lines for each job, and what is known of the repository.
func (s *Status) Text(w io.Writer) error {
	var b strings.Builder
	for _, line := range s.Lines() {
		b.WriteString(line.Text + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Lines lays it out in the width.
func (s *Status) Lines() []show.Line {
	var lines []show.Line
	for i := range s.defined() {
		lines = append(lines, s.serviceJob(&s.defined()[i])...)
	}
	others := 0
	for i := range s.Jobs {
		if j := &s.Jobs[i]; s.stepOf(j.PID) == nil {
			others++
			lines = append(lines, s.title(fmt.Sprintf("%s, process %d", j.Job, j.PID), where(j.Sources, j.Repository)))
			lines = append(lines, s.running(j)...)
		}
	}
	switch {
	case s.Service == nil && others == 0 && len(s.Problems) == 0: // one that does not answer runs, too
		lines = append(lines, show.Line{Text: "no job of this user is running"})
	case s.Service != nil && len(s.Service.Jobs) == 0:
		lines = append(lines, show.Line{Text: "the service has no jobs: see 'tidemark job'"})
	}
	if s.Service == nil {
		if len(s.Defined) == 0 {
			lines = append(lines, s.repository()...)
		}
		lines = append(lines, show.Line{Text: Presence(&s.Overview)})
	}
	for i := range s.Machines {
		lines = append(lines, s.machine(&s.Machines[i]))
	}
	if s.Service != nil && s.Service.Problem != "" {
		lines = append(lines, show.Line{Text: "the option file cannot be used: " + human.Harmless(s.Service.Problem),
			Style: show.Red})
	}
	for _, problem := range s.problems() {
		lines = append(lines, show.Line{Text: problem, Style: show.Bold})
	}
	var wrapped []show.Line // a reason, a time or a command is never cut
	for _, line := range lines {
		for text := range strings.SplitSeq(human.Wrap(line.Text, s.Width), "\n") {
			wrapped = append(wrapped, show.Line{Text: text, Style: line.Style})
		}
	}
	return wrapped
}

// defined returns the jobs of the service, or those of its files if it does not answer.
func (s *Status) defined() []event.DaemonJob {
	if s.Service != nil {
		return s.Service.Jobs
	}
	return s.Defined
}

// Presence describes a service that does not answer.
func Presence(s *event.Overview) string {
	process := ""
	if s.PID != 0 {
		process = fmt.Sprintf(" (process %d)", s.PID)
	}
	switch s.State {
	case event.ServiceStopped:
		return fmt.Sprintf("the service%s is stopped by a signal: 'kill -CONT %d' lets it go on", process, s.PID)
	case event.ServiceUnreachable:
		return "the service" + process + " runs and does not answer, as it may while it starts"
	case event.ServiceOfOther:
		return "the service is not running; one of the user " + human.Printable(s.User) + " is" + process
	}
	return "the service is not running"
}

// machine describes a machine with snapshots in the repository.
func (s *Status) machine(m *event.Machine) show.Line {
	line := show.Line{Text: human.Printable(m.Host) + ": " + s.last("last complete backup", m.LastBackup)}
	if m.Stale {
		line.Text += ": stale"
		line.Style = show.Bold
	}
	return line
}

// Log returns a line for each job that runs, or one that says that none does, for output that scrolls.
func (s *Status) Log() []string {
	var lines []string
	for i := range s.Jobs {
		j := &s.Jobs[i]
		name := fmt.Sprintf("%s, process %d", j.Job, j.PID)
		if of := s.stepOf(j.PID); of != nil {
			name = human.Printable(of.Name) + ": " + of.Step
		}
		parts := []string{name + ": policy " + s.policy(j)}
		if text := show.StatusLog(j); text != "" {
			parts = append(parts, text)
		}
		lines = append(lines, strings.Join(parts, ", "))
	}
	if s.Service != nil {
		for i := range s.Service.Jobs {
			if j := &s.Service.Jobs[i]; j.State == "waiting" {
				lines = append(lines, s.headline(j))
			}
		}
	}
	if len(lines) == 0 && len(s.Problems) == 0 {
		lines = append(lines, "no job of this user is running")
	}
	return append(lines, s.problems()...)
}

// StatusLog is a Status in lines that scroll.
type StatusLog struct{ *Status }

// Text writes the lines with the time before each.
func (s *StatusLog) Text(w io.Writer) error {
	for _, line := range s.Log() {
		if _, err := fmt.Fprintf(w, "%s %s\n", day(s.Now), line); err != nil {
			return err
		}
	}
	return nil
}

// problems returns the problems, each in one line.
func (s *Status) problems() (lines []string) {
	for _, problem := range s.Problems {
		lines = append(lines, oneLine(problem))
	}
	return lines
}

// title is the first line of a job: what it is, and as much of the sources and the repository as there is space for.
func (s *Status) title(name, of string) show.Line {
	if of != "" {
		if space := s.Width - human.Columns(name) - 2; space > 0 {
			name += ": " + human.CutMiddle(of, space)
		}
	}
	return show.Line{Text: name, Style: show.Bold}
}

// where names sources and repository: "/home to /srv/backup".
func where(sources []string, repository string) string {
	shown := make([]string, len(sources))
	for i, source := range sources {
		shown[i] = human.Printable(source)
	}
	text := strings.Join(shown, " ")
	if repository != "" {
		text = strings.TrimSpace(text + " to " + human.Printable(repository))
	}
	return text
}

// whereIn is where in a width: if that is too small, each of both is shortened in its middle.
func whereIn(sources []string, repository string, width int) string {
	const to = " to "
	text := where(sources, repository)
	if human.Columns(text) <= width {
		return text
	}
	from, repository := where(sources, ""), human.Printable(repository)
	space := width - len(to)
	half := max(space/2, space-human.Columns(repository))
	from = human.CutMiddle(from, half)
	return from + to + human.CutMiddle(repository, space-human.Columns(from))
}

// running lists the progress and the policy of a job that runs.
func (s *Status) running(j *event.Job) []show.Line {
	const indent = "  "
	lines := show.StatusLines(j, s.Watched, s.Width-len(indent))
	if len(lines) == 0 { // a program, or a job that is only beginning
		lines = append(lines, show.Line{Text: human.Printable(strings.Join(j.Command, " "))},
			show.Line{Text: human.Clocked(s.Now.Sub(j.Start)) + " elapsed"})
	}
	lines = slices.Insert(lines, 1, show.Line{Text: "policy " + s.policy(j)})
	for i := range lines {
		lines[i].Text = indent + lines[i].Text
		if lines[i].Style == show.Bold {
			lines[i].Style = show.Plain // the title is bold
		}
	}
	return lines
}

// policy is the policy of a job, and how long it holds.
func (s *Status) policy(j *event.Job) string {
	text := human.Printable(j.Policy)
	if j.PolicyUntil != nil {
		text += ending(j.PolicyUntil) + ", " + human.About(j.PolicyUntil.Sub(s.Now)) + " left"
	}
	return text
}

// serviceJob describes a job of the service.
func (s *Status) serviceJob(j *event.DaemonJob) []show.Line {
	style := show.Bold
	if j.Failures > 0 {
		style = show.Red
	}
	lines := []show.Line{{Text: s.headline(j), Style: style}}
	if j.Problem != "" {
		lines = append(lines, show.Line{Text: "  " + oneLine(j.Problem), Style: show.Red})
	}
	plain := func(text string) { lines = append(lines, show.Line{Text: "  " + text}) }
	if j.Repository != "" {
		plain(whereIn(j.Sources, j.Repository, s.Width-2))
	}
	for i := range s.Jobs {
		if s.stepOf(s.Jobs[i].PID) == j {
			lines = append(lines, s.running(&s.Jobs[i])...)
		}
	}
	what := "last backup"
	if j.Incomplete > 0 {
		what = "last complete backup"
	}
	if j.Stale {
		what = "stale: " + what
	}
	last := s.last(what, j.LastBackup)
	if j.LastBackup == nil && j.LastRun == nil { // there may be backups by hand
		last = "the service has not run it yet"
	}
	plain(last + "; " + s.last("last proven", j.LastProven))
	if j.Damage != "" {
		lines = append(lines, show.Line{Text: "  damaged: " + oneLine(j.Damage), Style: show.Red})
	}
	if j.Failures > 0 {
		text := human.Plural(uint64(j.Failures), "run") + " failed"
		if j.LastRun != nil && j.LastRun.Outcome == record.Failed {
			text += ": " + oneLine(j.LastRun.Message)
		}
		lines = append(lines, show.Line{Text: "  " + text, Style: show.Red})
	}
	if j.Failures == 0 && j.Incomplete > 0 {
		text := human.Plural(uint64(j.Incomplete), "run") + " incomplete"
		if j.LastRun != nil && j.LastRun.Outcome == record.Incomplete {
			text += ": " + oneLine(j.LastRun.Message)
		}
		lines = append(lines, show.Line{Text: "  " + text, Style: show.Bold})
	}
	if j.LastRun != nil && len(j.LastRun.Warnings) > 0 {
		lines = append(lines, show.Line{Text: "  warning: " + oneLine(strings.Join(j.LastRun.Warnings, "\n")),
			Style: show.Bold})
	}
	return lines
}

// headline is the state of a job of the service: "home: idle, next run 2026-11-24 02:30:00, in 17 h 30 min".
func (s *Status) headline(j *event.DaemonJob) string {
	text := human.Printable(j.Name) + ": " + human.Printable(j.State)
	switch {
	case j.Step != "":
		text += ", " + human.Printable(j.Step)
		if j.PID != 0 {
			text += ", process " + strconv.Itoa(j.PID)
		}
	case j.PausedUntil != nil:
		text += " until " + day(*j.PausedUntil)
	}
	if j.State == "cut" {
		text = human.Printable(j.Name) + ": its last run was cut"
	}
	if j.WaitsFor != "" {
		text += " (" + human.Printable(j.WaitsFor) + ")"
	}
	switch {
	case j.Next == nil || j.State == "running":
	case !j.Next.After(s.Now):
		text += ", due since " + day(*j.Next)
		if s.Service == nil && s.PID == 0 {
			text += "; the service is not running"
		}
	default:
		text += ", next run " + day(*j.Next)
		if left := j.Next.Sub(s.Now); left > 0 {
			text += ", in " + human.About(left)
		}
	}
	return text
}

// last is when something was done last.
func (s *Status) last(what string, at *time.Time) string {
	if at == nil {
		return what + " never"
	}
	return what + " " + day(*at) + ", " + human.About(s.Now.Sub(*at)) + " ago"
}

// repository describes the default repository, as this machine knows it.
func (s *Status) repository() []show.Line {
	if s.Repository == "" {
		return nil
	}
	location := human.Printable(s.Repository)
	if s.LastBackup == nil {
		return []show.Line{{Text: "no backup of this machine to " + location + " is known"}}
	}
	text := s.last("last backup", s.LastBackup) + ", to "
	lines := []show.Line{{Text: text + human.CutMiddle(location, s.Width-human.Columns(text))}}
	if d := &s.Proven.Damage; d.Problems > 0 {
		lines = append(lines, show.Line{Text: damageText(d), Style: show.Red})
	}
	if text := provenText(&s.Proven); text != "" {
		lines = append(lines, show.Line{Text: "last check: " + text})
	}
	if text := drillText(&s.Proven.Drill); text != "" {
		lines = append(lines, show.Line{Text: "last sample: " + text})
	}
	return lines
}

// stepOf returns the job of the service with a step of a process, nil if there is none.
func (s *Status) stepOf(pid int) *event.DaemonJob {
	if s.Service == nil || pid == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Service.Jobs, func(j event.DaemonJob) bool { return j.PID == pid })
	if i < 0 {
		return nil
	}
	return &s.Service.Jobs[i]
}
