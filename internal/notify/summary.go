package notify

import (
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// summarized is the time that a summary covers, and that between two of them.
const summarized = 7 * day

// ran is a run as a summary counts it.
type ran struct {
	job, outcome string
	end          time.Time
}

// count remembers a run for the next summary.
func (n *Notifier) count(r *event.Run) {
	n.week = append(n.week, ran{r.Job, r.Outcome, r.End})
}

// summarize posts the summaries that are due.
func (n *Notifier) summarize(now time.Time) {
	if n.config.Jobs == nil {
		return
	}
	n.week = slices.DeleteFunc(n.week, func(r ran) bool { return now.Sub(r.end) > summarized })
	for _, job := range n.config.Jobs() {
		o, _ := n.config.Of(job)
		last := n.box.past.Summaries[job]
		if !o.Summary || now.Sub(last) < summarized && !last.After(now) {
			continue
		}
		n.box.past.Summaries[job] = now
		if last.IsZero() || last.After(now) { // a week after it was asked for, or the clock was set back
			n.keep(job, n.box.save())
			continue
		}
		n.post(&record.Event{At: now, Kind: record.Note, Job: job, Text: n.summary(job)}, summary, Mail, Webhook, Desktop)
	}
}

func (n *Notifier) summary(job string) string {
	outcomes := map[string]uint64{}
	runs := uint64(0)
	whole := "none"
	for _, r := range n.week {
		if r.job != job {
			continue
		}
		runs++
		outcomes[r.outcome]++
		if r.outcome == record.Done {
			whole = r.end.Format("2006-01-02 15:04")
		}
	}
	return fmt.Sprintf("In the last 7 days: %s, %d complete, %d incomplete, %d failed, %d stopped; last complete run: %s",
		human.Plural(runs, "run"), outcomes[record.Done], outcomes[record.Incomplete], outcomes[record.Failed],
		outcomes[record.Stopped], whole)
}
