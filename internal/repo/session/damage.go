package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/writerlock"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// statsAtOnce is how many packs missing in a listing are checked concurrently.
const statsAtOnce = 4

// LostPacks compares the packs that the index names with a listing of the target. It returns those that are missing or
// have another size, and that no mark names yet. Stat confirms each of them, since a listing may lag behind. It reads
// no pack of the index, and may run beside all other work of the session. Packs that only the listing has are put back
// into the index: see putBack.
func (s *Session) LostPacks(ctx context.Context) ([]format.ID, error) {
	var named []index.PackInfo
	expected := maps.Clone(s.toRemove)
	err := s.to.Index.Packs(func(p index.PackInfo) error {
		expected[p.ID] = true
		s.checkedMu.Lock()
		defer s.checkedMu.Unlock()
		if !s.doomed[p.ID] {
			named = append(named, p)
		}
		return nil
	})
	s.named.Store(int64(len(named)))
	if errors.Is(err, index.ErrForgotten) || len(expected) == len(s.toRemove) && err == nil {
		return nil, nil // the cache was dropped: the packs that the run relies on are checked one by one
	}
	if err != nil {
		return nil, err
	}
	there := make(map[format.ID]int64, len(named))
	strays := false
	for info, err := range object.Each(s.early.In(ctx, store.Pack), s.to.Store, store.Pack) {
		if err != nil {
			return nil, err
		}
		there[info.ID] = info.Size
		strays = strays || !expected[info.ID] && info.Modified.Before(s.lease.began)
	}
	s.checkedMu.Lock()
	s.listed = there
	s.checkedMu.Unlock()
	if strays {
		if err := s.putBack(ctx); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var lost []format.ID
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(statsAtOnce)
	for _, p := range named {
		if size, listed := there[p.ID]; listed && size == int64(p.Size) {
			continue
		}
		g.Go(func() error {
			gone, err := s.lacks(store.SecondLook(ctx), p)
			if gone {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, p.ID)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(lost, format.ID.Compare)
	return slices.Compact(lost), nil
}

// putBack puts packs back into the index that no segment names. A prune that was cut off leaves such packs, and a
// snapshot may need them: after its mark was removed, or where damage was found in the packs that replaced them. A
// running writer has not named its packs yet, and a running prune is about to remove some; then a later session does
// it.
func (s *Session) putBack(ctx context.Context) error {
	if s.opt.DryRun {
		return nil
	}
	others, gone, err := s.readLeases(ctx, nil)
	if err != nil || len(gone) > 0 {
		return err
	}
	for i := range others {
		if others[i].Alive && !writerlock.Ended(s.to.Folder, lease.WriterOf(others[i].Name.ID)) {
			return nil
		}
	}
	if err := s.to.Index.PutBack(ctx); err != nil && !errors.Is(err, marks.ErrDamaged) {
		return err
	}
	return nil // beside a mark that cannot be read it is not known which packs are about to be removed
}

// MarkDamaged marks packs as missing or damaged and obeys that mark: from now on the session stores their blobs again.
// Packs that are intact at a second look are not marked. It is called before the first claim. In a dry run no mark is
// written.
func (s *Session) MarkDamaged(ctx context.Context, packs []format.ID) error {
	s.checkedMu.Lock()
	packs = slices.DeleteFunc(slices.Clone(packs), func(id format.ID) bool {
		known := s.doomed[id]
		s.doomed[id] = true
		return known
	})
	clear(s.checked)
	s.listed = nil
	s.checkedMu.Unlock()
	if len(packs) == 0 {
		return nil
	}
	s.opt.Note(fmt.Sprintf("packs that are missing, empty, cut off or damaged: %d; what this run needs of "+
		"them is stored again; run 'tidemark check' to see what else they held", len(packs)))
	if s.opt.DryRun {
		s.unmarked = true
		return nil
	}
	packs, err := object.StillDamaged(ctx, s.st, packs)
	if err != nil || len(packs) == 0 { // what this session does not use costs some space
		return err
	}
	m, err := marks.PutDamage(ctx, s.st, s.to.Keys, s.opt.Host, packs)
	if err != nil {
		return fmt.Errorf("record damaged packs: %w", err)
	}
	s.marks = append(s.marks, m)
	slices.SortFunc(s.marks, func(a, b marks.Mark) int { return a.ID.Compare(b.ID) })
	if err := s.lease.acknowledge(ctx, s.acknowledged()); err != nil {
		return fmt.Errorf("announce which marks are obeyed: %w", err)
	}
	return nil
}

// RetractDamage removes packs that are intact from the damage marks, and returns how many those named. It does nothing
// beside a prune. A mark that names other packs too is replaced, and the new one is put first.
func (s *Session) RetractDamage(ctx context.Context, intact []format.ID) (retracted int, err error) {
	others, err := s.Others(ctx)
	if err != nil || Pruning(others) != nil {
		return 0, err
	}
	for _, m := range s.marks {
		left := slices.DeleteFunc(slices.Clone(m.Packs), func(id format.ID) bool { return slices.Contains(intact, id) })
		if !m.Damaged || len(left) == len(m.Packs) {
			continue
		}
		if err := s.RenewOrFail(ctx); err != nil {
			return retracted, err
		}
		if len(left) > 0 {
			if _, err := marks.PutDamage(ctx, s.st, s.to.Keys, m.Host, left); err != nil {
				return retracted, fmt.Errorf("mark the other packs: %w", err)
			}
		}
		if err := store.Discard(ctx, s.st, m.Name()); err != nil {
			return retracted, fmt.Errorf("remove mark: %w", err)
		}
		retracted += len(m.Packs) - len(left)
	}
	return retracted, nil
}

// Suspect reports whether a snapshot may need lost or damaged blobs: a damage mark names packs, and the snapshot was
// made without acknowledging it.
func (s *Session) Suspect(sn *snapshot.Snapshot) bool {
	return s.unmarked || slices.ContainsFunc(s.marks, func(m marks.Mark) bool {
		return m.Damaged && !slices.Contains(sn.Acknowledged, m.ID)
	})
}

// Holds reports whether all of these blobs lie in packs on which the session may rely.
func (s *Session) Holds(ctx context.Context, ids []format.ID) (bool, error) {
	found := make([]index.Found, len(ids))
	if err := s.to.Index.Lookup(ids, found); err != nil {
		return false, fmt.Errorf("look up blobs: %w", err)
	}
	for i := range found {
		if found[i].Pack == nil {
			// This session may have stored it a moment ago, before the index has it. The caller then stores it once
			// more, which Claim prevents.
			return false, nil
		}
		if bad, err := s.unusable(ctx, found[i].Pack); bad || err != nil {
			return false, err
		}
	}
	return true, nil
}

// StopUsing makes the session store the blobs of these unreadable packs again. Earlier results of Claim remain, so the
// caller calls ReliedOnLost before it saves a snapshot.
func (s *Session) StopUsing(packs ...format.ID) {
	s.checkedMu.Lock()
	defer s.checkedMu.Unlock()
	for _, id := range packs {
		if !s.doomed[id] {
			s.doomed[id] = true
			s.excluded = append(s.excluded, id)
		}
	}
	clear(s.checked)
	s.listed = nil
}

// ReliedOnLost returns those of the lost packs that no mark obeyed by the session names, and all packs that were found
// missing or unreadable after it began. A snapshot of this session could rely on them.
func (s *Session) ReliedOnLost(lost []format.ID) []format.ID {
	s.checkedMu.Lock()
	defer s.checkedMu.Unlock()
	packs := slices.Clone(s.excluded)
	for _, id := range lost {
		if !s.doomed[id] {
			packs = append(packs, id)
		}
	}
	return packs
}
