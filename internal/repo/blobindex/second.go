package blobindex

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// secondPack marks numbers of packs that are in the second index. No repository has that many packs.
const secondPack = 1 << 31

// second is an index made anew from the segments, in a private file: what the local cache says has checksums, but a
// page of its B+tree has none, and one whose bits have flipped says of blobs that they are nowhere. The cache itself
// stays as it is for as long as it is open, because a session and others hold numbers of its packs; if the second index
// knew better, the file is removed afterwards. Index.syncMu guards what is not atomic.
//
// It leaves out packs that the target does not hold. So it also knows the older of two places of a blob when the pack with
// the newer one is gone, of which the cache keeps the newer one alone.
type second struct {
	needless bool // the cache was made in this run, from the segments too
	missed   bool // a pack is not there, so that it is not needless all the same
	tried    bool // once per run: a repository that has lost blobs must not read all segments for each
	err      error
	index    *Index
	ready    atomic.Pointer[Index] // index, once it is complete
}

// Second calls lookup with an index that is made anew from the segments, for one who has found that a place is wrong. It
// reports false if there is none that could know better than the cache.
func (x *Index) Second(ctx context.Context, lookup func(Places) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.makeSecondLocked(ctx); err != nil {
		return false, err
	}
	if other := x.second.ready.Load(); other != nil {
		return lookup(better{ctx: ctx, other: other})
	}
	return false, nil
}

// lookupLocked calls lookup with the cache, and with the second index if there is one.
func (x *Index) lookupLocked(ctx context.Context, lookup func(Places) (bool, error)) (bool, error) {
	ok, err := lookup(x.layers)
	for errors.Is(err, errLost) {
		if err = x.mendLocked(ctx); err == nil {
			ok, err = lookup(x.layers)
		}
	}
	if ok || err != nil {
		return ok, err
	}
	other := x.second.ready.Load()
	if other == nil {
		return false, nil
	}
	ok, err = lookup(better{ctx: ctx, other: other, first: x})
	if ok && !other.leftOut() {
		x.Disproved()
	}
	return ok, err
}

// Elsewhere is Search for one who has found that a pack is not on the target.
func (x *Index) Elsewhere(ctx context.Context, lookup func(Places) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	x.second.missed = true
	x.syncMu.Unlock()
	return x.Search(ctx, lookup)
}

// Absent reports whether a pack that segments name was not on the target when the second index was made.
func (x *Index) Absent(pack format.ID) bool {
	other := x.second.ready.Load()
	if other == nil {
		return false
	}
	_, absent := other.absent.Load(pack)
	return absent
}

// leftOut reports whether segments name packs that the target does not hold: then who asks for another place than the
// cache knows need not have been misled by it.
func (x *Index) leftOut() (some bool) {
	x.absent.Range(func(any, any) bool { some = true; return false })
	return some
}

// better is the second index, as it is asked for what the first has not answered.
type better struct {
	ctx   context.Context // of the search
	other *Index
	first *Index // which is disproved by what is found; nil: that is for the caller to say
}

// Lookup looks up those blobs that were not found before.
func (b better) Lookup(ids []format.ID, out []hashcache.Found) error {
	var lacked []format.ID
	before := make([]bool, len(out))
	for i := range out {
		before[i] = out[i].OK
	}
	if err := missing(b.other.Live(b.ctx), ids, out, secondPack); err != nil || b.first == nil {
		return err
	}
	for i := range out {
		if out[i].OK && !before[i] {
			lacked = append(lacked, ids[i])
		}
	}
	if len(lacked) == 0 {
		return nil
	}
	// Who asks may look for another place than that which the first index knows.
	known := make([]hashcache.Found, len(lacked))
	if err := b.first.layers.Lookup(lacked, known); err != nil {
		return err
	}
	for i := range known {
		if !known[i].OK {
			b.first.Disproved()
			break
		}
	}
	return nil
}

// Pack returns what is known of a pack that Lookup named.
func (b better) Pack(n uint32) (hashcache.PackInfo, error) {
	return b.other.layers.Pack(n &^ secondPack)
}

// makeSecondLocked makes the second index, once and if it could know better.
func (x *Index) makeSecondLocked(ctx context.Context) error {
	s := &x.second
	if s.needless && !s.missed || s.tried || x.layers.tooMuch() {
		return s.err
	}
	err := x.makeSecond(ctx)
	if ctx.Err() != nil {
		return err
	}
	s.tried, s.err = true, err
	return err
}

// makeSecond reads all segments. It writes nothing to the target.
func (x *Index) makeSecond(ctx context.Context) error {
	x.note("the local cache does not lead to everything that is asked for; reading the index of the repository again")
	opt := x.opt
	opt.Private = true
	fresh := New(x.st, x.keys, x.repo, opt)
	fresh.presentOnly = true
	if err := fresh.SyncLocal(ctx); err != nil {
		fresh.Close()
		return fmt.Errorf("read the index of the repository again: %w", err)
	}
	x.second.index = fresh
	x.second.ready.Store(fresh)
	return nil
}

// Disproved has the file of the cache removed at Close: what it said turned out to be wrong.
func (x *Index) Disproved() {
	list := x.layers.all()
	if len(list) == 0 || list[0].lost.Load() {
		return
	}
	if c, onDisk := list[0].known.(*hashcache.Cache); onDisk && c.Discard() {
		x.note("the local cache is damaged: it is removed, and the next run makes it anew")
	}
}

// Pack returns what is known of a pack that a lookup named.
func (x *Index) Pack(n uint32) (hashcache.PackInfo, error) {
	if other := x.second.ready.Load(); other != nil && n&secondPack != 0 {
		return other.layers.Pack(n &^ secondPack)
	}
	if _, err := x.Cache(); err != nil {
		return hashcache.PackInfo{}, err
	}
	return x.layers.Pack(n)
}
