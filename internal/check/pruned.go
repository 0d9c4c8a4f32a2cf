package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	infos, err := c.segmentsNow(ctx)
	if err != nil {
		return false, err
	}
	now := namesOf(infos)
	return slices.ContainsFunc(c.indexed, func(name string) bool {
		_, there := slices.BinarySearch(now, name)
		return !there
	}), nil
}

// segmentsNow lists the index once more. It is safe for concurrent use.
func (c *checker) segmentsNow(ctx context.Context) (infos []store.Info, err error) {
	for info, err := range c.st.List(ctx, store.Index) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", store.Index, err)
		}
		if _, err := format.ParseID(info.Name.ID); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return strings.Compare(a.Name.ID, b.Name.ID) })
	return infos, nil
}

// namesOf returns the names of files in their order.
func namesOf(infos []store.Info) (names []string) {
	for _, info := range infos {
		names = append(names, info.Name.ID)
	}
	return names
}

// nowNamed is the packs that the index names now. They are read only when a listed pack is gone.
type nowNamed struct {
	mu    sync.Mutex
	index []string           // segments from which they were read
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
		infos, err := c.segmentsNow(ctx)
		if err != nil {
			return false, err
		}
		names := namesOf(infos)
		if c.now.packs != nil && slices.Equal(names, c.now.index) {
			return c.now.packs[id], nil
		}
		packs, whole, err := c.named(ctx, infos)
		if err != nil {
			return false, err
		}
		if whole {
			c.now.packs, c.now.index = packs, names
			return packs[id], nil
		}
		if try == passes { // the listing has a segment that does not exist, which names nothing
			return packs[id], nil
		}
	}
}

// named reads which packs are named by segments that none of them supersedes. A damaged segment names nothing here.
// whole is false if a segment was gone before it was read, because the one that supersedes it was not read.
func (c *checker) named(ctx context.Context, infos []store.Info) (packs map[format.ID]bool, whole bool, err error) {
	whole = true
	superseded := make(map[format.ID]bool)
	each := func(visit func(id format.ID, seg *index.Segment)) error {
		for _, info := range infos {
			plain, err := object.Load(ctx, c.st, c.keys, info.Name, info.Size)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var seg *index.Segment
			if err == nil {
				seg, err = index.Decode(plain)
			}
			switch {
			case err == nil:
				visit(idOf(info), seg)
			case errors.Is(err, store.ErrNotExist):
				whole = false
			case !object.IsDamage(err) && !errors.Is(err, format.ErrUnsupported): // the packs that it names are unknown
				return fmt.Errorf("read index: %w", err)
			}
		}
		return nil
	}
	err = each(func(_ format.ID, seg *index.Segment) {
		for _, old := range seg.Supersedes {
			superseded[old] = true
		}
	})
	if err != nil {
		return nil, false, err
	}
	packs = make(map[format.ID]bool)
	err = each(func(id format.ID, seg *index.Segment) {
		for i := range seg.Packs {
			packs[seg.Packs[i].ID] = packs[seg.Packs[i].ID] || !superseded[id]
		}
	})
	return packs, whole, err
}
