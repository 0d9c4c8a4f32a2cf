package index

import (
	"context"
	"fmt"
	"slices"
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
	ready    atomic.Pointer[Index] // nil: it is not read yet
}

// Fresh looks up a blob in the fresh index, for a caller that found a location to be wrong. It finds nothing if the
// fresh index cannot know better than the cache.
func (x *Index) Fresh(ctx context.Context, id format.ID) (at Found, err error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.makeFreshLocked(ctx); err != nil {
		return at, err
	}
	if other := x.fresh.ready.Load(); other != nil {
		return other.Live(ctx).lookupOne(id)
	}
	return at, nil
}

// lookupLocked is a search in the cache, and then in the fresh index if there is one.
func (x *Index) lookupLocked(ctx context.Context, ids []format.ID, out []Found, but format.ID) (all bool, err error) {
	err = retry(func() error { return x.cache.Lookup(ids, out) }, func() error { return x.refillLocked(ctx) })
	other := x.fresh.ready.Load()
	if err != nil || foundAll(out, but) || other == nil {
		return err == nil && foundAll(out, but), err
	}
	added, err := lookupRest(other.Live(ctx).Lookup, ids, out, but)
	if err != nil {
		return false, err
	}
	// The caller may search for another location than the one that the cache knows.
	known := make([]Found, len(added))
	if err := x.cache.Lookup(added, known); err != nil {
		return false, err
	}
	all = foundAll(out, but)
	if all && !other.leftOut() || slices.ContainsFunc(known, func(f Found) bool { return f.Pack == nil }) {
		x.MarkStale()
	}
	return all, nil
}

// Elsewhere is Search for one blob and a caller that found that a pack is not on the target.
func (x *Index) Elsewhere(ctx context.Context, id, gone format.ID) (at Found, found bool, err error) {
	x.syncMu.Lock()
	x.fresh.missed = true
	x.syncMu.Unlock()
	var out [1]Found
	found, err = x.Search(ctx, []format.ID{id}, out[:], gone)
	return out[0], found, err
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

// foundAll reports whether all places are known and in other packs than but.
func foundAll(out []Found, but format.ID) bool {
	return !slices.ContainsFunc(out, func(f Found) bool { return !f.besides(but) })
}

// lookupRest looks up those blobs that were not found before in other packs than but, and returns those it finds.
func lookupRest(lookup func([]format.ID, []Found) error, ids []format.ID, out []Found, but format.ID) (
	added []format.ID, err error) {
	var rest []format.ID
	var at []int
	for i := range ids {
		if !out[i].besides(but) {
			rest, at = append(rest, ids[i]), append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	found := make([]Found, len(rest))
	if err := lookup(rest, found); err != nil {
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
	x.fresh.ready.Store(fresh)
	return nil
}

// MarkStale makes Close remove the cache, whose content turned out to be wrong.
func (x *Index) MarkStale() {
	if x.opt.Dir != "" && !x.opt.Private && !x.stale.Swap(true) {
		x.note("the local cache is damaged: it is removed, and the next run rebuilds it")
	}
}
