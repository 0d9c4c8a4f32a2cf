package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Jobs lists running jobs: a table with a line for each device of a job. Scripts get them as they reported themselves.
func Jobs(list []event.Job) Record {
	return &result{func(w *show.Page) {
		if len(list) == 0 {
			fmt.Fprintln(w, "no job of this user is running")
			return
		}
		t := table{head: []string{"PID>", "Policy|", "Running>", "Device~", "Now|", "Asleep|", "Command~"}}
		for _, s := range list {
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
		t.write(w)
	}, events(list)}
}

// ending is when a policy ends that was set for a time: " until 15:04:05", with the day if it is another one.
func ending(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	if at := until.Local(); at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return " until " + at.Format(time.TimeOnly)
	}
	return " until " + day(until)
}

// gateState describes what a gate does now, and the process that causes it.
func gateState(g *event.Gate) string {
	text := strings.ReplaceAll(g.State, "_", " ")
	if len(g.Blamed) > 0 && g.State != report.StateKey(iopolicy.Disengaged) {
		text += ", for " + report.Whom(g.Blamed)
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

// PolicyChange is what became of a running job: a line, and one for each thing that did not change with it.
func PolicyChange(c event.PolicyChange) Record {
	return &result{func(w *show.Page) {
		policy := c.Policy + ending(c.Until)
		line := fmt.Sprintf("process %d: %s, it was %s", c.PID, policy, c.Was)
		switch {
		case c.Was == c.Policy && c.Until.IsZero():
			line = fmt.Sprintf("process %d: %s, as before", c.PID, policy)
		case c.Was == c.Policy, c.Was == "":
			line = fmt.Sprintf("process %d: %s", c.PID, policy)
		}
		fmt.Fprintln(w, human.Printable(line))
		for _, note := range c.Notes {
			fmt.Fprintln(w, "  "+human.Printable(note))
		}
	}, []any{&c}}
}

// Priority is what became of a process that was given a policy: a line, and one for each thing that could not be done.
func Priority(pid int, a priority.Applied) Record {
	return &result{func(w *show.Page) {
		fmt.Fprintf(w, "process %d: %s: %s (%s)\n", pid, a.Policy, a.Now, human.Plural(uint64(a.Threads), "thread"))
		for _, note := range a.Notes {
			fmt.Fprintln(w, "  "+human.Printable(note))
		}
	}, []any{event.Of("priority", &struct {
		PID     int      `json:"pid"`
		Policy  string   `json:"policy"`
		Threads int      `json:"threads"`
		Now     string   `json:"now"`
		Notes   []string `json:"notes"`
	}{pid, a.Policy.String(), a.Threads, a.Now, list(a.Notes)})}}
}

// Steered is the state of the service after an order about a job, "" about all: a line for each job that was meant.
func Steered(d event.Daemon, name string) Record {
	return &result{func(w *show.Page) {
		for i := range d.Jobs {
			j := &d.Jobs[i]
			if name != "" && name != j.Name {
				continue
			}
			text := j.State
			switch {
			case j.Step != "":
				text += " (" + j.Step + ")"
			case j.WaitsFor != "":
				text += ": " + human.Printable(j.WaitsFor)
			case !j.PausedUntil.IsZero():
				text += " until " + day(j.PausedUntil)
			case !j.Next.IsZero():
				text += ", next run " + day(j.Next)
			}
			fmt.Fprintf(w, "job %s: %s\n", human.Printable(j.Name), text)
		}
	}, []any{&d}}
}
