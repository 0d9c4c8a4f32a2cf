package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// segment gathers stored packs for the next index segment.
type segment struct {
	mu    sync.Mutex
	packs []index.Pack
	blobs int
	since time.Time // when the first of packs was added
}

// add queues a pack, and returns a batch that the caller must write now.
func (g *segment) add(p index.Pack, t Tuning) []index.Pack {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.packs) == 0 {
		g.since = t.Now()
	}
	g.packs = append(g.packs, p)
	g.blobs += p.Table.Blobs()
	if len(g.packs) < t.Segment && g.blobs < SegmentBlobs && t.Now().Sub(g.since) < t.Interval {
		return nil
	}
	return g.drain()
}

// take returns the queued packs if the first of them is from before a moment; zero: in any case.
func (g *segment) take(before time.Time) []index.Pack {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !before.IsZero() && g.since.After(before) {
		return nil
	}
	return g.drain()
}

func (g *segment) drain() []index.Pack {
	batch := g.packs
	g.packs, g.blobs = nil, 0
	return batch
}

// restore queues packs again after their segment could not be written.
func (g *segment) restore(packs []index.Pack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.packs = append(g.packs, packs...)
}

// writeSegment stores an index segment for packs that are on the target, and only then ends the claims on their blobs.
// If it fails, the packs are queued again, and the end of the session makes a last attempt. The error
// localfs.ErrStopped means that the segment is on the target, but the run was interrupted before the local cache
// could merge it.
func (s *Session) writeSegment(ctx context.Context, packs []index.Pack) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, localfs.ErrStopped) {
			s.seg.restore(packs)
		}
	}()
	if err := s.requirePacks(ctx, packs); err != nil {
		return fmt.Errorf("store index segment: %w", err)
	}
	start := s.opt.Tuning.Now()
	seg := &index.Segment{Packs: packs}
	id, size, err := object.PutSegment(ctx, s.st, s.to.Keys, seg, !s.opt.DryRun)
	if err = s.removed(ctx, err); err != nil {
		return err
	}
	s.stored(store.Index, id, int(size), start)
	seg.Stored = size
	if err := s.to.Index.Merge(id, seg); err != nil {
		return fmt.Errorf("merge index segment into the cache: %w", err)
	}
	for i := range packs {
		for _, id := range packs[i].Table.IDs() {
			s.claims.stored(id)
		}
	}
	return nil
}

// remember merges a segment that is not on the target into the local cache. The next sync on this machine finds it
// missing and reads the packs that no segment names, as for a lost segment. Otherwise a run that ended because the
// target was away would send everything since its last segment again.
func (s *Session) remember(packs []index.Pack) {
	seg := &index.Segment{Packs: packs}
	_, id := object.Seal(s.to.Keys, store.Index, index.Encode(nil, seg))
	if err := s.to.Index.Merge(id, seg); err != nil {
		s.opt.Note(fmt.Sprintf("%d packs that are stored are not in any index, and may be sent again: %v",
			len(packs), err))
	}
}
