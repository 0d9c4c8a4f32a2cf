package daemon

import (
	"strings"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// recordedLines is how many lines of the output of a command are recorded.
const recordedLines = 100

// reportHooks records what the commands around a backup printed.
func (s *service) reportHooks(r *run, hooks []event.Hook) {
	for i := range hooks {
		if h := &hooks[i]; h.Output != "" {
			s.send(&record.Event{Kind: record.Note, Job: r.job.Name, Run: r.copy(),
				Text: h.Step + " printed: " + strings.Join(lastLines(h.Output, recordedLines), "\n")})
		}
	}
}
