package daemon

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/record"
)

// recheckEvery is the least time between two checks that only look whether known damage still stands.
const recheckEvery = time.Hour

// rechecks reports whether a run looks again for damage that stands. Such a check reads only what marks name.
func (m *memory) rechecks(now time.Time) bool {
	return m.Damage != "" && now.Sub(m.Rechecked).Abs() >= recheckEvery/10*9
}

// learn draws the conclusions about damage from a check or a drill that reached the repository.
func (s *service) learn(j *live, r *run, result Result, message string) {
	var summary struct {
		Errors uint64 `json:"num_errors"`
		Failed uint64 `json:"failed"`
	}
	_ = json.Unmarshal(result.Summary, &summary) // what cannot be read stays zero
	j.Rechecked = r.stepStart
	switch {
	case result.ExitCode == 0 && j.Damage != "":
		j.Damage = ""
		s.send(&record.Event{Kind: record.Note, Job: j.job.Name,
			Text: "The damage of the repository that was found before is healed"})
	case result.ExitCode == exitFailed && summary.Errors+summary.Failed > 0:
		j.Damage = r.step.Name + ": " + message
	}
}

// standing returns why a run whose steps all succeeded failed all the same: damage of the repository stands.
func (j *live) standing() string {
	if j.Damage == "" {
		return ""
	}
	return "the repository is still damaged: " + j.Damage
}

// readsData reports whether the arguments are those of a check that reads data back.
func readsData(args []string) bool {
	return slices.Contains(args, "--read-data-rolling") || slices.Contains(args, "--read-data-subset")
}
