package index

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// freshIndex is an index that is read again from the segments into temporary files, for a blob that the cache
// does not lead to. The cache detects its own damage, so mostly the blob is in a pack that is gone. The fresh
// index leaves out packs that the target does not hold. So it finds the older of two locations of a blob when
// the pack of the newer one is gone, which the cache cannot. If it contains what the cache lacks otherwise, the
// cache is stale and removed at Close. Index.syncMu guards what is not atomic.
type freshIndex struct {
	needless bool // the cache was created in this run, from the same segments
	missed   bool // a pack is not on the target, so it is not needless
	tried    bool // once per run: with lost blobs, all segments would be read for each of them
	err      error
	index    *Index
	ready    atomic.Pointer[Index] // index, when it is complete
}

// Fresh calls lookup with the fresh index, for a caller that found a location to be wrong. It returns false if the
// fresh index cannot know better than the cache.
func (x *Index) Fresh(ctx context.Context, lookup func(Source) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.makeFreshLocked(ctx); err != nil {
		return false, err
	}
	if other := x.fresh.ready.Load(); other != nil {
		return lookup(freshSource{ctx: ctx, other: other})
	}
	return false, nil
}

// lookupLocked calls lookup with the cache, and then with the fresh index if there is one.
func (x *Index) lookupLocked(ctx context.Context, lookup func(Source) (bool, error)) (bool, error) {
	ok, err := lookup(x.cache)
	for errors.Is(err, ErrLost) {
		if err = x.refillLocked(ctx); err == nil {
			ok, err = lookup(x.cache)
		}
	}
	if ok || err != nil {
		return ok, err
	}
	other := x.fresh.ready.Load()
	if other == nil {
		return false, nil
	}
	ok, err = lookup(freshSource{ctx: ctx, other: other, first: x})
	if ok && !other.leftOut() {
		x.MarkStale()
	}
	return ok, err
}

// Elsewhere is Search for a caller that found that a pack is not on the target.
func (x *Index) Elsewhere(ctx context.Context, lookup func(Source) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	x.fresh.missed = true
	x.syncMu.Unlock()
	return x.Search(ctx, lookup)
}

// Absent reports whether a pack that segments name was not on the target when the fresh index was read.
func (x *Index) Absent(pack format.ID) bool {
	other := x.fresh.ready.Load()
	if other == nil {
		return false
	}
	_, absent := other.absent.Load(pack)
	return absent
}

// leftOut reports whether segments name packs that the target does not hold. Then a search for another location does
// not show that the cache is wrong.
func (x *Index) leftOut() (some bool) {
	x.absent.Range(func(any, any) bool { some = true; return false })
	return some
}

// freshSource searches the fresh index for blobs that the first lookup did not find.
type freshSource struct {
	ctx   context.Context // of the search
	other *Index
	first *Index // marked stale if it lacks what is found; nil: the caller decides
}

// Lookup looks up those blobs that were not found before.
func (b freshSource) Lookup(ids []format.ID, out []Found) error {
	lacked, err := LookupRest(b.other.Live(b.ctx), ids, out)
	if err != nil || len(lacked) == 0 || b.first == nil {
		return err
	}
	// The caller may search for another location than the one that the first index knows.
	known := make([]Found, len(lacked))
	if err := b.first.cache.Lookup(lacked, known); err != nil {
		return err
	}
	for i := range known {
		if known[i].Pack == nil {
			b.first.MarkStale()
			break
		}
	}
	return nil
}

// LookupRest looks up those blobs that were not found before, and returns those it finds.
func LookupRest(in Source, ids []format.ID, out []Found) (added []format.ID, err error) {
	var rest []format.ID
	var at []int
	for i := range ids {
		if out[i].Pack == nil {
			rest, at = append(rest, ids[i]), append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	found := make([]Found, len(rest))
	if err := in.Lookup(rest, found); err != nil {
		return nil, err
	}
	for j, i := range at {
		if out[i] = found[j]; out[i].Pack != nil {
			added = append(added, ids[i])
		}
	}
	return added, nil
}

// makeFreshLocked reads the fresh index, once and if it can know better.
func (x *Index) makeFreshLocked(ctx context.Context) error {
	s := &x.fresh
	if s.needless && !s.missed || s.tried || x.cache.Full() {
		return s.err
	}
	err := x.makeFresh(ctx)
	if ctx.Err() != nil {
		return err
	}
	s.tried, s.err = true, err
	return err
}

// makeFresh reads all segments. It writes nothing to the target.
func (x *Index) makeFresh(ctx context.Context) error {
	x.note("the local cache does not lead to everything that is asked for; reading the index of the repository again")
	opt := x.opt
	opt.Private = true
	fresh := New(x.st, x.keys, opt)
	fresh.presentOnly = true
	if err := fresh.SyncLocal(ctx); err != nil {
		fresh.Close()
		return fmt.Errorf("read the index of the repository again: %w", err)
	}
	x.fresh.index = fresh
	x.fresh.ready.Store(fresh)
	return nil
}

// MarkStale makes Close remove the cache, whose content turned out to be wrong.
func (x *Index) MarkStale() {
	if x.opt.Dir != "" && !x.opt.Private && !x.stale.Swap(true) {
		x.note("the local cache is damaged: it is removed, and the next run rebuilds it")
	}
}
