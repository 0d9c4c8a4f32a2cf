package daemon

import (
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// recordedLines is how many lines of the output of a command are recorded.
const recordedLines = 100

// settle runs what a killed run of a job owes. The job does not run meanwhile.
func (s *service) settle(j *live) {
	if s.Settle == nil || !j.settling.IsZero() {
		return
	}
	j.settling = s.Clock.Now()
	go func(one *job.Job) {
		ran, err := s.Settle(one)
		s.later(func() { s.settleEnded(j, ran, err) })
	}(j.definition())
}

// settleEnded reports what was run.
func (s *service) settleEnded(j *live, ran bool, err error) {
	j.settling = time.Time{}
	switch {
	case err != nil:
		s.note(j.job.Name, "AFTERCOMMAND of a run that was killed: "+err.Error())
	case ran:
		s.note(j.job.Name, "the AFTERCOMMAND of a run that was killed has run")
	}
}

// reportHooks records what the commands around a backup printed.
func (s *service) reportHooks(r *run, hooks []event.Hook) {
	for i := range hooks {
		if h := &hooks[i]; h.Output != "" {
			s.send(&record.Event{Kind: record.Note, Job: r.job.Name, Run: r.copy(),
				Text: h.Step + " printed: " + strings.Join(lastLines(h.Output, recordedLines), "\n")})
		}
	}
}
