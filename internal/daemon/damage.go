package daemon

import (
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Damage returns what this machine has recorded about damage of the repository of a job, by hand or by the service.
// Without a cache, or with one that cannot be read, that is nothing.
func Damage(j *job.Job) proofs.Damage {
	c := j.Spec.Cache()
	if !c.Enabled || c.Dir == "" {
		return proofs.Damage{}
	}
	id, _, err := caches.Last(c.Dir, j.Repository)
	if err != nil || id == "" {
		return proofs.Damage{}
	}
	known, _ := proofs.ReadSummary(filepath.Join(c.Dir, id)) // the next check begins a new one
	return known.Damage
}

// compare draws the conclusions from the record of this machine. healed: damage that was known is not there any more.
func (m *memory) compare(d proofs.Damage) (healed bool) {
	switch {
	case d.Problems > 0 && m.Damage == "":
		m.Damage = human.Plural(d.Problems, "problem") + " found on this machine " + d.At.Format("2006-01-02 15:04") +
			"; 'tidemark check' names what is lost"
	case d.Problems == 0 && m.Damage != "" && d.At.After(m.Rechecked):
		m.Damage = ""
		return true
	}
	return false
}

// look draws the conclusions from the record of this machine for one job.
func (s *service) look(j *live) {
	if s.Damage != nil && j.compare(s.Damage(j.definition())) {
		s.healed(j)
	}
}

func (s *service) healed(j *live) {
	s.note(j.job.Name, "The damage of the repository that was found before is healed")
}

// learn draws the conclusions about damage from a check or a drill that reached the repository.
func (s *service) learn(j *live, r *run, result Result, message string) {
	var summary struct {
		Errors uint64 `json:"num_errors"` // of a check
		drill.Result
	}
	_ = json.Unmarshal(result.Summary, &summary) // what cannot be read stays zero
	j.Rechecked = r.stepStart
	switch {
	case result.ExitCode == 0 && j.Damage != "":
		j.Damage = ""
		s.healed(j)
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
