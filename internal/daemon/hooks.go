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

// hookEnd is the end of a look for what a killed run owes.
type hookEnd struct {
	j   *live
	ran bool
	err error
}

// settle runs what a killed run of a job owes. The job does not run meanwhile.
func (s *service) settle(j *live) {
	if s.Settle == nil || !j.settling.IsZero() {
		return
	}
	j.settling = s.Clock.Now()
	go func(one *job.Job) {
		ran, err := s.Settle(one)
		select {
		case s.settled <- hookEnd{j, ran, err}:
		case <-s.done:
		}
	}(j.definition())
}

// settleEnded reports what was run.
func (s *service) settleEnded(e hookEnd) {
	e.j.settling = time.Time{}
	switch {
	case e.err != nil:
		s.note(e.j.job.Name, "AFTERCOMMAND of a run that was killed: "+e.err.Error())
	case e.ran:
		s.note(e.j.job.Name, "the AFTERCOMMAND of a run that was killed has run")
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
