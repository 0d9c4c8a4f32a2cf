package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Mark is a mark on the target.
type Mark struct {
	ID   format.ID
	Info store.Info // as it was listed
	*mark.Mark
}

// PruneTask stands in the lease of a prune, so that there is one at a time.
const PruneTask = "prune"

// Marks returns the marks on the target by ascending ID. One that cannot be read is an error, ErrDamagedMark if it is
// damaged: without it a snapshot could rely on a pack that is about to be removed.
func Marks(ctx context.Context, st store.Store, keys *seal.Keys) ([]Mark, error) {
	marks, damaged, err := readMarks(ctx, st, keys)
	if err == nil && len(damaged) > 0 {
		err = damaged[0].why
	}
	if err != nil {
		return nil, err
	}
	return marks, nil
}

// damagedMark is a mark that says nothing any more.
type damagedMark struct {
	name store.Name
	why  error
}

func readMarks(ctx context.Context, st store.Store, keys *seal.Keys) (marks []Mark, damaged []damagedMark, err error) {
	var infos []store.Info
	for info, err := range st.List(ctx, store.Mark) {
		if err != nil {
			return nil, nil, fmt.Errorf("list marks: %w", err)
		}
		infos = append(infos, info)
	}
	for _, info := range infos {
		id, err := format.ParseID(info.Name.ID)
		if err != nil {
			continue // not a name we give
		}
		m, err := readMark(ctx, st, keys, info)
		switch {
		case errors.Is(err, store.ErrNotExist): // the prune has just finished
		case object.IsDamage(err):
			damaged = append(damaged, damagedMark{info.Name, fmt.Errorf("%w: %w", ErrDamagedMark, err)})
		case err != nil:
			return nil, nil, err
		default:
			marks = append(marks, Mark{id, info, m})
		}
	}
	slices.SortFunc(marks, func(a, b Mark) int { return a.ID.Compare(b.ID) })
	return marks, damaged, nil
}

func readMark(ctx context.Context, st store.Store, keys *seal.Keys, info store.Info) (*mark.Mark, error) {
	plain, err := object.Load(ctx, st, keys, info.Name, info.Size)
	if err != nil {
		return nil, err
	}
	m, err := mark.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return m, nil
}

// DropDamagedMarks removes the marks that were damaged when the session of a prune began. That pardons what they condemned:
// of the packs, those that the index does not name any more were needed by no snapshot, nor by one that came later, as
// its writer obeyed the mark; and the others stay. It is for the one prune that is at work.
func (s *Session) DropDamagedMarks(ctx context.Context) error {
	for _, m := range s.damagedMarks {
		if s.opt.DryRun {
			return m.why
		}
		if err := s.Hold(ctx); err != nil {
			return err
		}
		if err := s.st.Delete(ctx, m.name); err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("remove a damaged mark: %w", err)
		}
	}
	return nil
}

// Condemned returns the packs that prunes have condemned, and fails as Marks does.
func Condemned(ctx context.Context, st store.Store, keys *seal.Keys) (map[format.ID]struct{}, error) {
	marks, err := Marks(ctx, st, keys)
	if err != nil {
		return nil, err
	}
	return condemnedBy(marks), nil
}

func condemnedBy(marks []Mark) map[format.ID]struct{} {
	condemned := make(map[format.ID]struct{})
	for i := range marks {
		for _, id := range marks[i].Packs {
			condemned[id] = struct{}{}
		}
	}
	return condemned
}

// heed reads the marks and, if there are any, says in the lease that this writer obeys them. The lease stands by now: a
// prune that does not see it has put its mark before, so that the mark is found here.
func (s *Session) heed(ctx context.Context) error {
	marks, damaged, err := readMarks(ctx, s.st, s.to.Keys)
	if err == nil && len(damaged) > 0 && s.opt.Task != PruneTask {
		err = damaged[0].why
	}
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	s.damagedMarks = damaged
	s.marks, s.condemned = marks, condemnedBy(marks)
	if len(marks) == 0 || s.opt.DryRun {
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
		return there[id] && !slices.ContainsFunc(s.marks, func(m Mark) bool {
			_, looked := slices.BinarySearchFunc(m.Looked, id, format.ID.Compare)
			return !looked && !slices.Contains(sn.Heeds, m.ID)
		})
	}, nil
}
