package index

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Live is the index of a writer: a query whose cache is dropped meanwhile waits until the index was read again. It is
// safe for concurrent use.
type Live struct {
	ctx context.Context // of the writer; a context per query would have to be passed millions of times
	x   *Index
}

// Live returns the index for queries until ctx ends.
func (x *Index) Live(ctx context.Context) Live { return Live{ctx, x} }

// Lookup fills out, which must be as long as ids.
func (l Live) Lookup(ids []format.ID, out []Found) error {
	return l.retry(func() error { return l.x.chain.Lookup(ids, out) })
}

// Pack returns a pack that Lookup named. If its cache was dropped meanwhile, the error is ErrNoPack.
func (l Live) Pack(n uint32) (PackInfo, error) { return l.x.chain.Pack(n) }

// Merge adds the content of a segment.
func (l Live) Merge(id format.ID, seg *index.Segment) error {
	err := l.retry(func() error { return l.x.chain.Merge(id, seg) })
	l.x.noteFull()
	return err
}

// retry repeats a query. Each cache is dropped at most once, and the last one, in memory, never.
func (l Live) retry(query func() error) error {
	for {
		err := query()
		if !errors.Is(err, errDropped) {
			return err
		}
		if err := l.x.refill(l.ctx); err != nil {
			return err
		}
	}
}

// noteFull notes once that blobs are left out.
func (x *Index) noteFull() {
	if x.chain.full() && !x.fullReported.Swap(true) {
		x.note("there is no disk space for the index of this repository, and memory holds %d blobs: data beyond those "+
			"is stored again", x.chain.limit)
	}
}

// Private is an empty index for one caller, which closes it. What is in a cache that fails is forgotten.
type Private struct{ chain *chain }

// Private creates a Private.
func (x *Index) Private() Private { return Private{x.newChain(true)} }

// Lookup fills out, which must be as long as ids.
func (p Private) Lookup(ids []format.ID, out []Found) error {
	return p.retry(func() error { return p.chain.Lookup(ids, out) })
}

// Pack returns a pack that Lookup named.
func (p Private) Pack(n uint32) (PackInfo, error) { return p.chain.Pack(n) }

// Merge adds the content of a segment.
func (p Private) Merge(id format.ID, seg *index.Segment) error {
	return p.retry(func() error { return p.chain.Merge(id, seg) })
}

// Close releases the cache.
func (p Private) Close() { p.chain.close() }

func (p Private) retry(query func() error) error {
	for {
		err := query()
		if !errors.Is(err, errDropped) {
			return err
		}
		p.chain.refill.Store(p.chain.dropped.Load())
	}
}
