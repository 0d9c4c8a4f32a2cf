package check

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

// judgeGone decides about the packs that were gone when they were read. If the index no longer names a pack, a prune
// has removed it, and its live blobs are in another pack. A pack that the index does not name is never named again,
// because its salt is random and no writer can produce it a second time.
func (c *checker) judgeGone(ctx context.Context) error {
	if len(c.gone) == 0 {
		return nil
	}
	named, err := c.namedNow(ctx)
	if err != nil {
		return err
	}
	removed := 0
	for _, f := range c.gone {
		if !named[f.id] {
			removed++
			continue
		}
		c.noteProof(f, false)
		c.found.LosePack(f.id, 0, errGone)
	}
	if removed > 0 {
		c.found.Note("packs that a prune removed before they were read, so that what took their place was not: %d", removed)
	}
	return nil
}

// namedNow returns the packs that the index names now. In the end it returns those of a listing with a segment that
// does not exist, which names nothing.
func (c *checker) namedNow(ctx context.Context) (packs map[format.ID]bool, err error) {
	whole := false
	for try := 1; try <= passes && !whole; try++ {
		listed, err := object.List(ctx, c.st, store.Index)
		if err != nil {
			return nil, err
		}
		if packs, whole, err = c.named(ctx, listed); err != nil {
			return nil, err
		}
	}
	return packs, nil
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
