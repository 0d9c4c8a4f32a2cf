package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// A concurrent prune repacks the live blobs of a pack, supersedes the index segments that name the pack, and removes
// it. A missing pack may therefore have been moved if a segment is gone that was listed when the check began. In this
// case the check starts again before it reports damage.

// pruned reports whether a segment is gone that was listed.
func (c *checker) pruned(ctx context.Context) (bool, error) {
	listed, err := object.List(ctx, c.st, store.Index)
	if err != nil {
		return false, err
	}
	now := idsOf(listed)
	return slices.ContainsFunc(c.indexed, func(id format.ID) bool {
		_, there := slices.BinarySearchFunc(now, id, format.ID.Compare)
		return !there
	}), nil
}

// idsOf returns the IDs of files in their order.
func idsOf(infos []object.Info) (ids []format.ID) {
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

// nowNamed is the packs that the index names now. They are read only when a listed pack is gone.
type nowNamed struct {
	mu    sync.Mutex
	index []format.ID        // segments from which they were read
	packs map[format.ID]bool // nil: not read yet, or not all of them could be
	gone  int                // packs that were removed
}

// removed reports whether the index no longer names a pack that is gone: a prune has removed it, and its live blobs are
// in another pack. The index is listed again only for a pack that it named when it was last read. A pack that it does
// not name is never named again, because its salt is random and no writer can produce it a second time.
func (c *checker) removed(ctx context.Context, id format.ID) (bool, error) {
	c.now.mu.Lock()
	defer c.now.mu.Unlock()
	named, err := c.now.packs[id], error(nil)
	if c.now.packs == nil || named {
		if named, err = c.namedNow(ctx, id); err != nil {
			return false, err
		}
	}
	if !named {
		c.now.gone++
	}
	return !named, nil
}

// namedNow lists the index, reads it if the listing changed, and reports whether it names a pack. It is called with
// now.mu held.
func (c *checker) namedNow(ctx context.Context, id format.ID) (bool, error) {
	for try := 1; ; try++ {
		listed, err := object.List(ctx, c.st, store.Index)
		if err != nil {
			return false, err
		}
		segments := idsOf(listed)
		if c.now.packs != nil && slices.Equal(segments, c.now.index) {
			return c.now.packs[id], nil
		}
		packs, whole, err := c.named(ctx, listed)
		if err != nil {
			return false, err
		}
		if whole {
			c.now.packs, c.now.index = packs, segments
			return packs[id], nil
		}
		if try == passes { // the listing has a segment that does not exist, which names nothing
			return packs[id], nil
		}
	}
}

// named reads which packs are named by segments that none of them supersedes. A damaged segment names nothing here.
// whole is false if a segment was gone before it was read, because the one that supersedes it was not read.
func (c *checker) named(ctx context.Context, listed []object.Info) (packs map[format.ID]bool, whole bool, err error) {
	whole = true
	readable := func(_ object.Info, _ *index.Segment, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, store.ErrNotExist):
			whole = false
		case err != nil && !object.IsDamage(err) && !errors.Is(err, format.ErrUnsupported): // its packs are unknown
			return fmt.Errorf("read index: %w", err)
		}
		return nil
	}
	segments := object.Segments{Store: c.st, Keys: c.keys}
	var standing object.Standing
	if err := segments.Update(ctx, &standing, listed, readable); err != nil {
		return nil, false, err
	}
	packs = make(map[format.ID]bool)
	err = segments.Each(ctx, standing.Counting, func(info object.Info, seg *index.Segment, err error) error {
		for i := 0; err == nil && i < len(seg.Packs); i++ {
			packs[seg.Packs[i].ID] = true
		}
		return readable(info, seg, err)
	})
	return packs, whole, err
}
