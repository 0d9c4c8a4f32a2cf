package output

import (
	"fmt"
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
	for _, e := range provenEvents(&proven) {
		o.Proven = e
	}
	o.Verdict = Verdict(&o, &proven, limit, now)
	return &Status{Overview: o, Proven: proven, Now: now, Width: anyWidth}
}

// Events returns the overview.
func (s *Status) Events() []any { return []any{&s.Overview} }

// Text writes a block of lines for each job, and what is known of the repository.
func (s *Status) Text(w *show.Page) {
	for _, line := range s.Lines() {
		fmt.Fprintln(w, line.Text)
	}
}

// Lines lays it out in the width.
func (s *Status) Lines() []show.Line {
	var lines []show.Line
	add := func(style show.Style, text string) { lines = append(lines, show.Line{Text: text, Style: style}) }
	defined := *s.DefinedJobs()
	for i := range defined {
		lines = append(lines, s.serviceJob(&defined[i])...)
	}
	others := 0
	for i := range s.Jobs {
		if j := &s.Jobs[i]; s.stepOf(j.PID) == nil {
			others++
			add(show.Bold, s.title(fmt.Sprintf("%s, process %d", j.Job, j.PID), where(j.Sources, j.Repository)))
			lines = append(lines, s.running(j)...)
		}
	}
	switch {
	case s.Service == nil && others == 0 && len(s.Problems) == 0: // one that does not answer runs, too
		add(show.Plain, "no job of this user is running")
	case s.Service != nil && len(s.Service.Jobs) == 0:
		add(show.Plain, "the service has no jobs: see 'tidemark job'")
	}
	if s.Service == nil {
		if len(s.Defined) == 0 {
			lines = append(lines, s.repository()...)
		}
		add(show.Plain, Presence(&s.Overview))
	}
	for i := range s.Machines {
		m, style, stale := &s.Machines[i], show.Plain, ""
		if m.Stale {
			style, stale = show.Bold, ": stale"
		}
		add(style, human.Printable(m.Host)+": "+s.last("last complete backup", m.LastBackup)+stale)
	}
	if s.Service != nil && s.Service.Problem != "" {
		add(show.Red, "the option file cannot be used: "+human.Harmless(s.Service.Problem))
	}
	for _, problem := range s.problems() {
		add(show.Bold, problem)
	}
	var wrapped []show.Line // a reason, a time or a command is never cut
	for _, line := range lines {
		for text := range strings.SplitSeq(human.Wrap(line.Text, s.Width), "\n") {
			wrapped = append(wrapped, show.Line{Text: text, Style: line.Style})
		}
	}
	return wrapped
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

// StatusLog is a Status in lines that scroll, with the time before each.
func StatusLog(s *Status) Record {
	return &result{func(w *show.Page) {
		for _, line := range s.Log() {
			fmt.Fprintf(w, "%s %s\n", day(s.Now), line)
		}
	}, s.Events()}
}

// problems returns the problems, each in one line.
func (s *Status) problems() (lines []string) {
	for _, problem := range s.Problems {
		lines = append(lines, oneLine(problem))
	}
	return lines
}

// title is the first line of a job: what it is, and as much of the sources and the repository as there is space for.
func (s *Status) title(name, of string) string {
	if space := s.Width - human.Columns(name) - 2; space > 0 && of != "" {
		name += ": " + human.CutMiddle(of, space)
	}
	return name
}

// where names sources and repository: "/home to /srv/backup".
func where(sources []string, repository string) string {
	text := printableList(sources, " ")
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
	if !j.PolicyUntil.IsZero() {
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
	add := func(style show.Style, text string) { lines = append(lines, show.Line{Text: "  " + text, Style: style}) }
	if j.Problem != "" {
		add(show.Red, oneLine(j.Problem))
	}
	if j.Repository != "" {
		add(show.Plain, whereIn(j.Sources, j.Repository, s.Width-2))
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
	if j.LastBackup.IsZero() && j.LastRun == nil { // there may be backups by hand
		last = "the service has not run it yet"
	}
	add(show.Plain, last+"; "+s.last("last proven", j.LastProven))
	if j.Damage != "" {
		add(show.Red, "damaged: "+oneLine(j.Damage))
	}
	why := func(outcome string) string {
		if j.LastRun == nil || j.LastRun.Outcome != outcome {
			return ""
		}
		return ": " + oneLine(j.LastRun.Message)
	}
	switch {
	case j.Failures > 0:
		add(show.Red, human.Plural(uint64(j.Failures), "run")+" failed"+why(record.Failed))
	case j.Incomplete > 0:
		add(show.Bold, human.Plural(uint64(j.Incomplete), "run")+" incomplete"+why(record.Incomplete))
	}
	if j.LastRun != nil && len(j.LastRun.Warnings) > 0 {
		add(show.Bold, "warning: "+oneLine(strings.Join(j.LastRun.Warnings, "\n")))
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
	case !j.PausedUntil.IsZero():
		text += " until " + day(j.PausedUntil)
	}
	if j.State == "cut" {
		text = human.Printable(j.Name) + ": its last run was cut"
	}
	if j.WaitsFor != "" {
		text += " (" + human.Printable(j.WaitsFor) + ")"
	}
	switch {
	case j.Next.IsZero() || j.State == "running":
	case !j.Next.After(s.Now):
		text += ", due since " + day(j.Next)
		if s.Service == nil && s.PID == 0 {
			text += "; the service is not running"
		}
	default:
		text += ", next run " + day(j.Next)
		if left := j.Next.Sub(s.Now); left > 0 {
			text += ", in " + human.About(left)
		}
	}
	return text
}

// last is when something was done last.
func (s *Status) last(what string, at time.Time) string {
	if at.IsZero() {
		return what + " never"
	}
	return what + " " + day(at) + ", " + human.About(s.Now.Sub(at)) + " ago"
}

// repository describes the default repository, as this machine knows it.
func (s *Status) repository() []show.Line {
	if s.Repository == "" {
		return nil
	}
	location := human.Printable(s.Repository)
	if s.LastBackup.IsZero() {
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

// The verdicts of status, as in event.Overview.
const (
	Fresh      = "fresh"
	Stale      = "stale"
	Incomplete = "incomplete"
	Failed     = "failed"
	Damaged    = "damaged"
	Unknown    = "unknown"
)

// VerdictCode returns the exit code of a verdict, as plug-ins of monitoring systems have them.
func VerdictCode(verdict string) int {
	code, known := map[string]int{Fresh: 0, Stale: 1, Incomplete: 1, Failed: 2, Damaged: 2}[verdict]
	if !known {
		return 3
	}
	return code
}

// Verdict returns the worst of what is known of the jobs and the service. A fact goes before what is unknown. limit is
// the age from which on the backup of a default repository without jobs is stale; 0: none.
func Verdict(o *event.Overview, proven *proofs.Summary, limit time.Duration, now time.Time) string {
	jobs := *o.DefinedJobs()
	verdicts := map[string]bool{}
	fresh := map[string]bool{} // groups: one of their repositories is enough
	for i := range jobs {
		if jobs[i].Group != "" && jobVerdict(&jobs[i]) == Fresh {
			fresh[jobs[i].Group] = true
		}
	}
	for i := range jobs {
		if v := jobVerdict(&jobs[i]); v == Damaged || !fresh[jobs[i].Group] {
			verdicts[v] = true
		}
	}
	switch {
	case o.Service != nil && o.Service.Problem != "":
		verdicts[Failed] = true
	case o.State == event.ServiceStopped || o.State == event.ServiceUnreachable || len(jobs) == 0 && o.Service != nil:
		verdicts[Unknown] = true
	case len(jobs) > 0:
	case o.LastBackup.IsZero():
		verdicts[Unknown] = true
	case limit > 0 && now.Sub(o.LastBackup) > limit:
		verdicts[Stale] = true
	}
	verdicts[Damaged] = verdicts[Damaged] || proven.Damage.Problems > 0
	verdicts[Failed] = verdicts[Failed] || proven.Drill.Failed > 0
	for i := range o.Machines {
		if o.Machines[i].Stale {
			verdicts[Stale] = true
		}
	}
	for _, one := range []string{Damaged, Failed, Stale, Incomplete, Unknown} {
		if verdicts[one] {
			return one
		}
	}
	return Fresh
}

// jobVerdict returns the verdict on a job of the service.
func jobVerdict(j *event.DaemonJob) string {
	switch {
	case j.Damage != "":
		return Damaged
	case j.Failures > 0 || j.State == "invalid":
		return Failed
	case j.Stale:
		return Stale
	case j.Incomplete > 0:
		return Incomplete
	case j.LastBackup.IsZero():
		return Unknown
	case j.Problem != "":
		return Stale // a later version of it does not run
	}
	return Fresh
}
