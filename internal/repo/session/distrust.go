package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Distrust makes the session store anew what lies in these packs, as if a prune had condemned them: somebody found out
// that they cannot be read. Claims that were answered before are not taken back.
func (s *Session) Distrust(packs ...format.ID) {
	s.judgedMu.Lock()
	defer s.judgedMu.Unlock()
	for _, id := range packs {
		s.condemned[id] = struct{}{}
	}
	clear(s.judged)
	s.suspicious.Store(len(s.condemned) > 0)
}

// DistrustMissing distrusts every pack that the index names and the target does not hold, or not in its size. It lists
// all packs, so it is for when there is a reason.
func (s *Session) DistrustMissing(ctx context.Context) error {
	named := make(map[format.ID]uint64)
	for n := uint32(0); ; n++ {
		info, err := s.to.Index.Pack(n)
		if errors.Is(err, hashcache.ErrNoPack) {
			break
		}
		if err != nil {
			return fmt.Errorf("list packs of the index: %w", err)
		}
		named[info.ID] = info.Size
	}
	for info, err := range s.st.List(ctx, store.Pack) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil && named[id] == uint64(info.Size) {
			delete(named, id)
		}
	}
	lost := make([]format.ID, 0, len(named))
	for id := range named {
		lost = append(lost, id)
	}
	s.Distrust(lost...)
	return nil
}
