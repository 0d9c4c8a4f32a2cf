package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// syncMode says what a sync may do.
type syncMode uint8

const (
	// growOnly keeps the content of the cache: other goroutines look blobs up meanwhile.
	growOnly syncMode = 0
	// mayDrop drops content of the cache that is outdated.
	mayDrop syncMode = 1
	// localOnly writes nothing to the target.
	localOnly syncMode = 2
	// wholeOnly leaves out packs that are damaged.
	wholeOnly syncMode = 4
)

// syncRun is one pass of bringing the cache up to date.
type syncRun struct {
	x          *Index
	listed     []object.Info
	there      map[format.ID]int64 // size of each listed segment
	merged     map[format.ID]int64 // in the cache: see Cache.Segments
	superseded map[format.ID]bool  // replaced by another segment
	damaged    map[format.ID]bool  // unreadable
	stale      []format.ID         // superseded segments whose content the cache holds
	moved      bool                // a listed segment is gone
	packs      map[format.ID]bool  // on the target; nil: every named pack counts
}

// syncLocked synchronises until no part of the cache is lost meanwhile.
func (x *Index) syncLocked(ctx context.Context, mode syncMode) error {
	for {
		losses := x.cache.Losses()
		err := x.syncOnce(ctx, mode)
		if err == nil {
			x.cache.Restored(losses)
			err = x.cache.Publish()
		}
		if errors.Is(err, ErrLost) {
			continue
		}
		if err != nil {
			return err
		}
		if mode&mayDrop != 0 {
			x.lossesAtSync.Store(losses)
		}
		x.noteFull()
		return nil
	}
}

func (x *Index) syncOnce(ctx context.Context, mode syncMode) error {
	if err := x.cache.Refresh(); err != nil {
		return err
	}
	s := &syncRun{x: x, superseded: make(map[format.ID]bool), damaged: make(map[format.ID]bool)}
	var vanished []format.ID
	for pass := 1; pass == 1 || s.moved && pass <= listPasses; pass++ {
		var err error
		if vanished, err = s.update(ctx, mode); err != nil {
			return err
		}
	}
	if err := s.rebuildLost(ctx, vanished, mode); err != nil {
		return err
	}
	if mode&mayDrop != 0 {
		x.synced, x.searched = true, false
	}
	return nil
}

// listPasses is how often the segments are listed at most, if some are gone before they are read. A running prune has
// replaced them, and without the replacements their blobs would be stored again.
const listPasses = 3

// update lists the segments and merges new ones. It returns those in the cache that are no longer on the target as they
// were.
func (s *syncRun) update(ctx context.Context, mode syncMode) (vanished []format.ID, err error) {
	x := s.x
	if vanished, err = s.compare(ctx); err != nil {
		return nil, err
	}
	if mode&mayDrop == 0 {
		vanished = nil
	}
	if x.presentOnly { // after the segments were listed: their packs were stored before
		if s.packs, err = x.listPacks(ctx); err != nil {
			return nil, err
		}
	}
	if len(s.merged) == 0 && !x.synced {
		x.fresh.needless = true
	}
	s.moved = false
	for {
		if outdated := append(s.stale, vanished...); len(outdated) > 0 && mode&mayDrop != 0 {
			if err := s.forget(outdated); err != nil {
				return nil, fmt.Errorf("drop outdated parts of the cache: %w", err)
			}
		}
		s.stale = nil
		if err := s.mergeNew(ctx); err != nil {
			return nil, fmt.Errorf("read index: %w", err)
		}
		if len(s.stale) == 0 || mode&mayDrop == 0 {
			return vanished, nil
		}
	}
}

// forget drops segments from the cache, with what was merged since.
func (s *syncRun) forget(segments []format.ID) error {
	if err := s.x.cache.Forget(segments...); err != nil {
		return err
	}
	left, err := s.x.cache.Segments()
	if err != nil {
		return err
	}
	s.merged, s.x.fresh.needless = left, len(left) == 0
	return nil
}

// compare lists the segments on the target and in the cache, and returns those of the cache that are not on the target,
// have another size there, or are marked as damaged.
func (s *syncRun) compare(ctx context.Context) (vanished []format.ID, err error) {
	s.listed = nil
	clear(s.damaged)
	s.there = make(map[format.ID]int64)
	for info, err := range object.Each(ctx, s.x.st, store.Index) {
		if err != nil {
			return nil, err
		}
		s.listed = append(s.listed, info)
		s.there[info.ID] = info.Size
	}
	// Oldest first: of several locations of a blob the one merged last counts, and a blob is stored again only if its
	// older location was lost.
	slices.SortFunc(s.listed, object.Info.Older)
	if s.merged, err = s.x.cache.Segments(); err != nil {
		return nil, fmt.Errorf("list segments in the cache: %w", err)
	}
	for id, size := range s.merged {
		now, listed := s.there[id]
		gone := !listed || s.x.doubted[id] && size != 0
		if !gone && size != 0 && now != size { // a listing may lag behind
			info, err := s.x.st.Stat(ctx, object.Named(store.Index, id))
			if err != nil && !errors.Is(err, store.ErrNotExist) {
				return nil, fmt.Errorf("look at index segment %s: %w", id.Short(), err)
			}
			gone = err != nil || info.Size != size
		}
		if gone {
			vanished = append(vanished, id)
		}
	}
	return vanished, nil
}

// mergeNew reads the segments that the cache lacks, a few at a time, and merges them.
func (s *syncRun) mergeNew(ctx context.Context) error {
	unknown := slices.DeleteFunc(slices.Clone(s.listed), func(info object.Info) bool {
		_, merged := s.merged[info.ID]
		return merged || s.damaged[info.ID]
	})
	segments := object.Segments{Store: s.x.st, Keys: s.x.keys, Ahead: true}
	return segments.Each(ctx, unknown, s.merge)
}

func (s *syncRun) merge(info object.Info, seg *index.Segment, err error) error {
	id := info.ID
	if err == nil && !s.x.doubted[id] { // one that is intact is not read again
		seg.Stored = info.Size
	}
	switch {
	case err != nil && !object.IsDamage(err) && !errors.Is(err, store.ErrNotExist):
		return err
	case s.superseded[id]:
		// Recorded without its packs, so that the next sync does not read it.
		seg = &index.Segment{}
	case errors.Is(err, store.ErrNotExist):
		s.moved = true
		return nil // removed since it was listed, and replaced by another
	case err != nil:
		s.damaged[id] = true
		return nil
	}
	var superseded []format.ID // recorded with it, so that none comes back while it is merged
	for _, old := range seg.Supersedes {
		_, merged := s.merged[old]
		if merged && !s.superseded[old] {
			s.stale = append(s.stale, old)
		}
		s.superseded[old] = true
		delete(s.damaged, old)
		if _, listed := s.there[old]; listed && !merged {
			superseded = append(superseded, old)
		}
	}
	s.leaveOut(seg)
	if err := s.x.cache.Merge(id, seg, superseded...); err != nil {
		return fmt.Errorf("merge index segment %s into the cache: %w", id.Short(), err)
	}
	s.merged[id] = seg.Stored
	for _, old := range superseded {
		s.merged[old] = 0
	}
	return nil
}

// leaveOut removes packs that the target does not hold, or that the index leaves out, from a segment, so that an older
// location of a blob counts.
func (s *syncRun) leaveOut(seg *index.Segment) {
	if s.packs == nil {
		return
	}
	seg.Packs = slices.DeleteFunc(seg.Packs, func(p index.Pack) bool {
		if !s.packs[p.ID] {
			s.x.absent.Store(p.ID, struct{}{})
		}
		return !s.packs[p.ID] || s.x.without[p.ID]
	})
}

// rebuildLost rebuilds segments that are lost from the packs they named.
func (s *syncRun) rebuildLost(ctx context.Context, vanished []format.ID, mode syncMode) error {
	lost := 0
	for _, id := range vanished {
		if !s.superseded[id] {
			lost++
		}
	}
	var damaged []format.ID
	for id := range s.damaged {
		damaged = append(damaged, id)
	}
	slices.SortFunc(damaged, format.ID.Compare)
	switch {
	case len(damaged) > 0:
		s.x.note("%d index segments are damaged; reading the packs they named", len(damaged))
	case lost > 0:
		// Most likely a run lost the target before it could store its last segment. A damaged pack was being stored
		// then and is left out; its content is stored again.
		mode |= wholeOnly
		s.x.note("index segments that are gone: %d; reading the packs they named", lost)
	case len(s.listed) == 0:
		empty, err := object.NoPacks(ctx, s.x.st)
		if empty || err != nil {
			return err
		}
		s.x.note("the index is gone; reading the packs")
	default:
		return nil
	}
	_, err := s.x.rebuildUnlessInDoubt(ctx, damaged, mode)
	return err
}

func (x *Index) listPacks(ctx context.Context) (map[format.ID]bool, error) {
	there := make(map[format.ID]bool)
	for info, err := range object.Each(ctx, x.st, store.Pack) {
		if err != nil {
			return nil, err
		}
		there[info.ID] = true
	}
	return there, nil
}
