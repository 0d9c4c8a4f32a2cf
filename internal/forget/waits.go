package forget

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

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
