package output

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Jobs lists running jobs.
type Jobs struct{ List []control.Status }

// Text writes a table; a job has a line for each of its devices.
func (j *Jobs) Text(w io.Writer) error {
	if len(j.List) == 0 {
		_, err := fmt.Fprintln(w, "no job of this user is running")
		return err
	}
	t := table{head: []string{"PID>", "Policy|", "Running>", "Device~", "Now|", "Asleep|", "Command~"}}
	for _, s := range j.List {
		var device, now, slept []string
		if s.Status != nil {
			for i := range s.Status.Gates {
				g := &s.Status.Gates[i]
				device = append(device, human.Device(g.Device, g.Medium))
				now = append(now, gateState(g))
				slept = append(slept, asleep(g, time.Since(s.Start)))
			}
		}
		t.add(strconv.Itoa(s.PID), human.Printable(s.Policy)+ending(s.PolicyUntil),
			human.Clocked(time.Since(s.Start)), strings.Join(device, "\n"),
			strings.Join(now, "\n"), strings.Join(slept, "\n"), human.Printable(strings.Join(s.Command, " ")))
	}
	return t.write(w)
}

// ending is when a policy ends that was set for a time: " until 15:04:05", with the day if it is another one.
func ending(until *time.Time) string {
	if until == nil {
		return ""
	}
	if at := until.Local(); at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return " until " + at.Format(time.TimeOnly)
	}
	return " until " + day(*until)
}

// Events returns the jobs as they reported themselves.
func (j *Jobs) Events() []any {
	var all []any
	for i := range j.List {
		all = append(all, &j.List[i])
	}
	return all
}

// gateState describes what a gate does now, and the process that causes it.
func gateState(g *event.Gate) string {
	text := strings.ReplaceAll(g.State, "_", " ")
	if len(g.Blamed) > 0 && g.State != report.FullSpeed.Key() {
		text += ", for " + g.Blamed[0].String()
		if more := len(g.Blamed) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return human.Printable(text)
}

// asleep is the part of the job's time in which it slept at a gate.
func asleep(g *event.Gate, elapsed time.Duration) string {
	if g.Held <= 0 || elapsed <= 0 {
		return "never"
	}
	return human.Share(min(1, g.Held/elapsed.Seconds()))
}

// PolicyChange is what became of a running job.
type PolicyChange struct{ Change control.Change }

// Text writes a line, and one for each thing that did not change with it.
func (p *PolicyChange) Text(w io.Writer) error {
	c := p.Change
	policy := c.Policy + ending(c.Until)
	line := fmt.Sprintf("process %d: %s, it was %s", c.PID, policy, c.Was)
	switch {
	case c.Was == c.Policy && c.Until == nil:
		line = fmt.Sprintf("process %d: %s, as before", c.PID, policy)
	case c.Was == c.Policy, c.Was == "":
		line = fmt.Sprintf("process %d: %s", c.PID, policy)
	}
	_, err := fmt.Fprintln(w, human.Printable(line))
	for _, note := range c.Notes {
		if err == nil {
			_, err = fmt.Fprintln(w, "  "+human.Printable(note))
		}
	}
	return err
}

// Events returns the record.
func (p *PolicyChange) Events() []any { return []any{&p.Change} }
