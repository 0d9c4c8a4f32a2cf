package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// PruneTask is the task in the lease of a prune. Only one prune runs at a time.
const PruneTask = "prune"

// DropDamagedMarks removes damaged marks. That revives the packs they doomed. Packs that the index no longer names were
// needed by no snapshot, nor by a later one, as its writer obeyed the mark, or ignored it and found them in no index;
// the others stay. Only the one prune at work calls it.
func (s *Session) DropDamagedMarks(ctx context.Context, damaged []marks.Unreadable) error {
	for _, m := range damaged {
		if s.opt.DryRun {
			return m.Why
		}
		if err := s.RenewOrFail(ctx); err != nil {
			return err
		}
		if err := store.Discard(ctx, s.st, m.Name); err != nil {
			return fmt.Errorf("remove a damaged mark: %w", err)
		}
	}
	return nil
}

// readMarks reads the marks. The lease is already stored: a prune that did not find it has stored its mark before, so
// the mark is found here.
func (s *Session) readMarks(ctx context.Context) (damaged []marks.Unreadable, err error) {
	found, damaged, err := marks.Read(ctx, s.st, s.to.Keys)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	s.marks, s.doomed = found, marks.UnusableBy(found)
	s.toRemove = marks.DoomedPacks(found)
	return damaged, nil
}

// acknowledge names the marks that were read in the lease.
func (s *Session) acknowledge(ctx context.Context, damaged []marks.Unreadable) error {
	if len(damaged) > 0 && s.opt.Task != PruneTask {
		if err := s.ignore(ctx, damaged); err != nil {
			return fmt.Errorf("read marks: %w", err)
		}
	}
	if len(s.marks) == 0 || s.opt.DryRun {
		return nil
	}
	if err := s.lease.acknowledge(ctx, s.acknowledged()); err != nil {
		return fmt.Errorf("announce which marks are obeyed: %w", err)
	}
	return nil
}

// ignore lets a writer continue beside marks that it cannot read, unless a prune may be acting upon them. A prune that
// starts later cannot read them either, and removes the marks only; or it can, and waits for this writer, whose lease
// does not name them.
func (s *Session) ignore(ctx context.Context, damaged []marks.Unreadable) error {
	others, err := s.Others(ctx)
	if err != nil {
		return err
	}
	for i := range others {
		switch o := &others[i]; {
		case !o.Alive:
		case o.Lease.ID == lease.ID{}: // it cannot be read
			return fmt.Errorf("%w; a lease is unreadable too, and may be of a prune: run this again in 45 minutes",
				damaged[0].Why)
		case o.Lease.Task == PruneTask:
			return fmt.Errorf("%w; a prune is running, process %d on %s: run this again when it has ended, or 45 minutes "+
				"after it was killed", damaged[0].Why, o.Lease.PID, o.Lease.Host)
		}
	}
	s.opt.Note(fmt.Sprintf("%s is damaged and is ignored; what it named is not known: 'tidemark prune' removes "+
		"it, and 'tidemark check --read-data' finds damage that it may have named", damaged[0].Name.Path()))
	return nil
}

// acknowledged returns the marks that the session obeys, ascending.
func (s *Session) acknowledged() []format.ID {
	var ids []format.ID
	for i := range s.marks {
		ids = append(ids, s.marks[i].ID)
	}
	return ids
}

// PublishedLate reports whether a snapshot was published when its writer may have been treated as dead. Such a snapshot
// may lack data, and its writer may be about to delete it. published is the time of the snapshot on the target.
func PublishedLate(sn *snapshot.Snapshot, published time.Time) bool {
	if sn == nil || sn.Renewed == (tree.Time{}) {
		return false
	}
	gap := published.Sub(sn.Renewed.Std())
	return gap.Abs() > LeaseExpiry/2
}

// FilterParents lists the snapshots and returns a function that reports whether a new snapshot may take over trees from
// a snapshot without looking up their blobs. Three conditions must hold: it was listed after the lease of this writer,
// so nothing it needs is removed before the writer ends; it needs nothing that was doomed before; its own writer did
// not publish it late. A snapshot listed before the session began may have been forgotten and removed in between. For
// damage marks see Suspect.
func (s *Session) FilterParents(ctx context.Context) (func(format.ID, *snapshot.Snapshot) bool, error) {
	there := make(map[format.ID]time.Time)
	for info, err := range object.Each(s.Early(ctx), s.st, store.Snapshot) {
		if err != nil {
			return nil, err
		}
		there[info.ID] = info.Modified
	}
	return func(id format.ID, sn *snapshot.Snapshot) bool {
		published, ok := there[id]
		return ok && !PublishedLate(sn, published) && s.Certain(id, sn)
	}, nil
}

// Certain reports whether a snapshot needs no pack that a prune had marked before this session began: each mark names
// the snapshot as followed, or the snapshot acknowledges the mark.
func (s *Session) Certain(id format.ID, sn *snapshot.Snapshot) bool {
	return !slices.ContainsFunc(s.marks, func(m marks.Mark) bool {
		_, looked := slices.BinarySearchFunc(m.Checked, id, format.ID.Compare)
		return !m.Damaged && !looked && !slices.Contains(sn.Acknowledged, m.ID)
	})
}
