package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Live is the index of a writer: a query that finds a part of the cache lost waits until that was read again. It is
// safe for concurrent use.
type Live struct {
	*Index
	ctx   context.Context // of the writer; a context per query would have to be passed millions of times
	added *Cache          // of a dry run: what it would have added; it lies in a file, as memory must not grow with it
}

// Live returns the index for queries until ctx ends.
func (x *Index) Live(ctx context.Context) Live { return Live{Index: x, ctx: ctx} }

// Writer is Live for one writer, which calls the function in the end. What a dry run merges stays with it.
func (x *Index) Writer(ctx context.Context, dry bool) (l Live, end func()) {
	if l = x.Live(ctx); !dry {
		return l, func() {}
	}
	opt := x.opt
	opt.Private = true
	l.added = NewCache(opt)
	return l, l.added.Close
}

// Sync updates the index for a writer that has read the marks. It reads segments again that they name as damaged. With
// adopt it also puts packs into the index that a killed session has left. In a dry run it writes nothing to the target.
func (l Live) Sync(ctx context.Context, marked map[format.ID]bool, adopt bool) error {
	mode := mayDrop
	if l.added != nil {
		mode |= localOnly
	}
	err := l.sync(ctx, mode, marked)
	if err == nil && adopt {
		err = l.adopt(ctx)
	}
	return err
}

// Lookup fills out, which must be as long as ids.
func (l Live) Lookup(ids []format.ID, out []Found) error {
	err := retry(func() error { return l.cache.Lookup(ids, out) }, l.refill)
	if err != nil || l.added == nil {
		return err
	}
	return retry(func() error { _, err := lookupRest(l.added.Lookup, ids, out, format.ID{}); return err }, l.forget)
}

// lookupOne looks up one blob.
func (l Live) lookupOne(id format.ID) (Found, error) {
	var out [1]Found
	if err := l.Lookup([]format.ID{id}, out[:]); err != nil {
		return Found{}, fmt.Errorf("look up blob: %w", err)
	}
	return out[0], nil
}

// Merge adds the content of a segment.
func (l Live) Merge(id format.ID, seg *index.Segment) error {
	if l.added != nil {
		return retry(func() error { return l.added.Merge(id, seg) }, l.forget)
	}
	err := retry(func() error { return l.cache.Merge(id, seg) }, l.refill)
	l.noteFull()
	return err
}

// retry repeats a query that found a part of a cache lost, after mend. A loss removes a run or a folder from use, so
// their number is bounded.
func retry(query, mend func() error) error {
	for {
		err := query()
		if !errors.Is(err, ErrLost) {
			return err
		}
		if err := mend(); err != nil {
			return err
		}
	}
}

// refill merges the segments again that the cache has lost.
func (l Live) refill() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	return l.refillLocked(l.ctx)
}

// forget forgets what a damaged part of the cache of a dry run held.
func (l Live) forget() error {
	l.added.Restored(l.added.Losses())
	return nil
}

// noteFull notes once that blobs are left out.
func (x *Index) noteFull() {
	if x.cache.Full() && !x.fullReported.Swap(true) {
		x.note("there is no disk space for the index of this repository, and memory holds %d blobs: data beyond those "+
			"is stored again", x.opt.MemoryBlobs)
	}
}
