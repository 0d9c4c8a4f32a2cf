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

// second is an index made anew from the segments, in a private file: blocks of the local cache have no checksum, and
// one whose bits have flipped says of blobs that they are nowhere, or somewhere else. The cache itself stays as it is for
// as long as it is open, because a session and others hold numbers of its packs; if the second index knew better, the
// file is removed afterwards. Index.syncMu guards what is not atomic.
type second struct {
	needless bool // the cache was made in this run, from the segments too
	tried    bool // once per run: a repository that has lost blobs must not read all segments for each
	err      error
	index    *Index
	cache    atomic.Pointer[hashcache.Cache] // that of index, once it is complete
}

// Second calls lookup with an index that is made anew from the segments, for one who has found that a place is wrong. It
// reports false if there is none that could know better than the cache.
func (x *Index) Second(ctx context.Context, lookup func(*hashcache.Cache) (bool, error)) (bool, error) {
	x.syncMu.Lock()
	defer x.syncMu.Unlock()
	if err := x.makeSecondLocked(ctx); err != nil {
		return false, err
	}
	if c := x.second.cache.Load(); c != nil {
		return lookup(c)
	}
	return false, nil
}

// lookupLocked calls lookup with the cache, and with the second index if there is one.
func (x *Index) lookupLocked(c *hashcache.Cache, lookup func(*hashcache.Cache) (bool, error)) (bool, error) {
	if ok, err := lookup(c); ok || err != nil {
		return ok, err
	}
	other := x.second.cache.Load()
	if other == nil {
		return false, nil
	}
	ok, err := lookup(other)
	if ok {
		x.Disproved()
	}
	return ok, err
}

// makeSecondLocked makes the second index, once and if it could know better.
func (x *Index) makeSecondLocked(ctx context.Context) error {
	s := &x.second
	if s.needless || s.tried {
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
	err := fresh.SyncLocal(ctx)
	if err == nil {
		var c *hashcache.Cache
		if c, err = fresh.Cache(); err == nil {
			x.second.index = fresh
			x.second.cache.Store(c)
			return nil
		}
	}
	return fmt.Errorf("read the index of the repository again: %w", errors.Join(err, fresh.Close()))
}

// Disproved has the file of the cache removed at Close: what it said turned out to be wrong.
func (x *Index) Disproved() {
	x.cacheMu.Lock()
	defer x.cacheMu.Unlock()
	if x.cache != nil && x.cache.Discard() {
		x.note("the local cache is damaged: it is removed, and the next run makes it anew")
	}
}

// Lookup looks blobs up in c, which Search has passed on. In the second index it looks up those alone that were not found
// before.
func (x *Index) Lookup(c *hashcache.Cache, ids []format.ID, out []hashcache.Found) error {
	if c != x.second.cache.Load() {
		return c.Lookup(ids, out)
	}
	var rest []format.ID
	var at []int
	for i := range ids {
		if !out[i].OK {
			rest, at = append(rest, ids[i]), append(at, i)
		}
	}
	found := make([]hashcache.Found, len(rest))
	if err := c.Lookup(rest, found); err != nil {
		return err
	}
	better := false
	for j, i := range at {
		if out[i] = found[j]; out[i].OK {
			out[i].Loc.Pack |= secondPack
			better = true
		}
	}
	if better {
		x.Disproved()
	}
	return nil
}

// Pack returns what is known of a pack that Lookup named.
func (x *Index) Pack(n uint32) (hashcache.PackInfo, error) {
	if c := x.second.cache.Load(); c != nil && n&secondPack != 0 {
		return c.Pack(n &^ secondPack)
	}
	c, err := x.Cache()
	if err != nil {
		return hashcache.PackInfo{}, err
	}
	return c.Pack(n)
}
