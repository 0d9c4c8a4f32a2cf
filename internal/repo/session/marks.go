package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// PruneTask stands in the lease of a prune, so that there is one at a time.
const PruneTask = "prune"

// DropDamagedMarks removes the marks that were damaged when the session of a prune began. That pardons what they condemned:
// of the packs, those that the index does not name any more were needed by no snapshot, nor by one that came later, as
// its writer obeyed the mark; and the others stay. It is for the one prune that is at work.
func (s *Session) DropDamagedMarks(ctx context.Context) error {
	for _, m := range s.damagedMarks {
		if s.opt.DryRun {
			return m.Why
		}
		if err := s.Hold(ctx); err != nil {
			return err
		}
		if err := s.st.Delete(ctx, m.Name); err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("remove a damaged mark: %w", err)
		}
	}
	return nil
}

// heed reads the marks and, if there are any, says in the lease that this writer obeys them. The lease stands by now: a
// prune that does not see it has put its mark before, so that the mark is found here.
func (s *Session) heed(ctx context.Context) error {
	found, damaged, err := marks.Read(ctx, s.st, s.to.Keys)
	if err == nil && len(damaged) > 0 && s.opt.Task != PruneTask {
		err = damaged[0].Why
	}
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	s.damagedMarks = damaged
	s.marks, s.condemned = found, marks.CondemnedBy(found)
	if len(found) == 0 || s.opt.DryRun {
		return nil
	}
	if err := s.lease.heed(ctx, s.heeded()); err != nil {
		return fmt.Errorf("announce which marks are obeyed: %w", err)
	}
	return nil
}

// heeded returns the marks that the session obeys, ascending.
func (s *Session) heeded() []format.ID {
	var ids []format.ID
	for i := range s.marks {
		ids = append(ids, s.marks[i].ID)
	}
	return ids
}

// Reliable looks which snapshots are there now, and returns a function that says of a snapshot whether a new one may take
// trees over from it without looking where their blobs lie: it was there after the lease of this writer, so that nothing
// it needs is removed before the writer ends, and it needs nothing that was condemned before. What was listed before the
// session began may have been forgotten, and removed, in between.
func (s *Session) Reliable(ctx context.Context) (func(format.ID, *snapshot.Snapshot) bool, error) {
	there := make(map[format.ID]bool)
	for info, err := range s.st.List(ctx, store.Snapshot) {
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			there[id] = true
		}
	}
	return func(id format.ID, sn *snapshot.Snapshot) bool {
		return there[id] && !slices.ContainsFunc(s.marks, func(m marks.Mark) bool {
			_, looked := slices.BinarySearchFunc(m.Looked, id, format.ID.Compare)
			return !looked && !slices.Contains(sn.Heeds, m.ID)
		})
	}, nil
}
