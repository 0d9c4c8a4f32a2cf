package index

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Live is the index of a writer: a query that finds a part of the cache lost waits until that was read again. It is
// safe for concurrent use.
type Live struct {
	ctx context.Context // of the writer; a context per query would have to be passed millions of times
	x   *Index
}

// Live returns the index for queries until ctx ends.
func (x *Index) Live(ctx context.Context) Live { return Live{ctx, x} }

// Lookup fills out, which must be as long as ids.
func (l Live) Lookup(ids []format.ID, out []Found) error {
	return l.retry(func() error { return l.x.cache.Lookup(ids, out) })
}

// Merge adds the content of a segment.
func (l Live) Merge(id format.ID, seg *index.Segment) error {
	err := l.retry(func() error { return l.x.cache.Merge(id, seg) })
	l.x.noteFull()
	return err
}

// retry repeats a query. A loss removes a run or a folder from use, so their number is bounded.
func (l Live) retry(query func() error) error {
	for {
		err := query()
		if !errors.Is(err, ErrLost) {
			return err
		}
		if err := l.x.refill(l.ctx); err != nil {
			return err
		}
	}
}

// noteFull notes once that blobs are left out.
func (x *Index) noteFull() {
	if x.cache.Full() && !x.fullReported.Swap(true) {
		x.note("there is no disk space for the index of this repository, and memory holds %d blobs: data beyond those "+
			"is stored again", x.cache.opt.MemoryBlobs)
	}
}

// Private is an empty index for one caller, which closes it. What a damaged part held is forgotten.
type Private struct{ cache *Cache }

// Private creates a Private.
func (x *Index) Private() Private { return Private{x.newCache(true)} }

// Lookup fills out, which must be as long as ids.
func (p Private) Lookup(ids []format.ID, out []Found) error {
	return p.retry(func() error { return p.cache.Lookup(ids, out) })
}

// Merge adds the content of a segment.
func (p Private) Merge(id format.ID, seg *index.Segment) error {
	return p.retry(func() error { return p.cache.Merge(id, seg) })
}

// Close releases the cache.
func (p Private) Close() { p.cache.Close() }

func (p Private) retry(query func() error) error {
	for {
		err := query()
		if !errors.Is(err, ErrLost) {
			return err
		}
		p.cache.Restored(p.cache.Losses())
	}
}
