package session

import "github.com/tidemark-backup/tidemark/pkg/format"

// Distrust makes the session store anew what lies in these packs, as if a prune had condemned them: somebody found out
// that they cannot be read. Claims that were answered before are not taken back.
func (s *Session) Distrust(packs ...format.ID) {
	s.judgedMu.Lock()
	defer s.judgedMu.Unlock()
	for _, id := range packs {
		s.condemned[id] = struct{}{}
	}
	clear(s.judged)
}
