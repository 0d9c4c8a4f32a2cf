package blobindex

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Live is the index for a writer who asks and adds all the time, and must not end because a cache does: it makes up for one
// that is lost. It is safe for concurrent use.
type Live struct {
	ctx context.Context // of the writer: there is one for each question otherwise, and millions of questions
	x   *Index
}

// Live returns the index as it is asked until ctx ends.
func (x *Index) Live(ctx context.Context) Live { return Live{ctx, x} }

// Lookup finds out where blobs lie.
func (l Live) Lookup(ids []format.ID, out []hashcache.Found) error {
	return l.lasting(func() error { return l.x.layers.Lookup(ids, out) })
}

// Pack returns what is known of a pack that Lookup named. If the cache that knew is lost meanwhile, it is none:
// hashcache.ErrNoPack.
func (l Live) Pack(n uint32) (hashcache.PackInfo, error) { return l.x.layers.Pack(n) }

// Merge adds what a segment says.
func (l Live) Merge(id format.ID, seg *index.Segment) error {
	err := l.lasting(func() error { return l.x.layers.Merge(id, seg) })
	l.x.tellSpilled()
	return err
}

// lasting asks until there is an answer. Each cache is lost once, and the last one, which is in memory, is not.
func (l Live) lasting(ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, errLost) {
			return err
		}
		if err := l.x.mend(l.ctx); err != nil {
			return err
		}
	}
}

// tellSpilled tells once that blobs are left out.
func (x *Index) tellSpilled() {
	if x.layers.tooMuch() && !x.spilled.Swap(true) {
		x.note("the index of this repository has no room on a disk, and memory takes %d blobs: what is met again beyond those is "+
			"stored again", x.layers.limit)
	}
}

// Aside is an index that nobody else sees and that is gone when it is closed. What it loses with a disk is forgotten.
type Aside struct{ layers *layers }

// Aside makes an empty index for the caller alone, who closes it.
func (x *Index) Aside() Aside { return Aside{x.newLayers(true)} }

// Lookup finds out where blobs lie.
func (a Aside) Lookup(ids []format.ID, out []hashcache.Found) error {
	return a.forgetting(func() error { return a.layers.Lookup(ids, out) })
}

// Pack returns what is known of a pack that Lookup named.
func (a Aside) Pack(n uint32) (hashcache.PackInfo, error) { return a.layers.Pack(n) }

// Merge adds what a segment says.
func (a Aside) Merge(id format.ID, seg *index.Segment) error {
	return a.forgetting(func() error { return a.layers.Merge(id, seg) })
}

// Close releases the caches.
func (a Aside) Close() { a.layers.close() }

func (a Aside) forgetting(ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, errLost) {
			return err
		}
		a.layers.made.Store(a.layers.losses.Load())
	}
}
