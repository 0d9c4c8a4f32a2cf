package forget

import (
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Waits returns why a policy removes none of the snapshots it was applied to; "": it may.
func (p *Policy) Waits(verdicts []Verdict) string {
	i := slices.IndexFunc(verdicts, func(v Verdict) bool {
		return !v.Snapshot.Partial && !slices.Contains(v.Reasons, future)
	})
	if i < 0 || p.Doubted {
		return ""
	}
	why := Doubt(verdicts[i].Snapshot)
	if why != "" {
		why += " in the newest snapshot, " + verdicts[i].ID.Short()
	}
	return why
}

// Doubt returns why a snapshot may lack data that its sources should have, so that an older one may hold the only copy;
// "": it does not.
func Doubt(s *snapshot.Snapshot) string {
	for i := range s.Held {
		if h := &s.Held[i]; h.Doubted() {
			verb := "is"
			if h.State == snapshot.Shrunk {
				verb = "has"
			}
			return fmt.Sprintf("source %s %s %s", human.Printable(s.Sources[i]), verb, h.State)
		}
	}
	if n := s.Stats.Objects.Failed; n > 0 {
		return human.Plural(n, "object") + " could not be backed up"
	}
	return ""
}
