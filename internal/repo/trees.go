package repo

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo/framecache"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// treeFrames is the folder of tree frames on this machine, opened when the first one is needed.
type treeFrames struct {
	dir string // empty: none are kept
	opt framecache.Options

	mu     sync.Mutex
	cache  *framecache.Cache
	closed bool
}

// open returns the cache, or nil if there is none.
func (t *treeFrames) open() *framecache.Cache {
	if t.dir == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache == nil && !t.closed {
		t.cache = framecache.Open(t.dir, t.opt)
	}
	return t.cache
}

func (t *treeFrames) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.cache != nil {
		t.cache.Close()
	}
}

// keep takes the frames of a pack that a session has stored.
func (t *treeFrames) keep(id format.ID, data []byte, frames []pack.Frame) {
	cache := t.open()
	if cache == nil {
		return
	}
	for _, f := range frames {
		cache.Put(framecache.Key{Pack: id, Offset: f.Offset}, data[f.Offset:][:f.Sealed], framecache.Uploaded)
	}
}

// loadFrame returns an opened frame: of trees from this machine, if they are kept here, else from the target.
//
// A copy that opens is the frame that was stored: the seal binds it to the key, the pack and its place in the pack. One
// that does not is dropped and fetched, so that damage on this machine costs time and nothing else.
func (r *Repository) loadFrame(ctx context.Context, p hashcache.PackInfo, at Span) ([]byte, error) {
	var cache *framecache.Cache
	if p.Kind == pack.Trees {
		cache = r.trees.open()
	}
	if cache == nil {
		raw, _, err := r.ReadFrame(ctx, p, at.Offset, at.Sealed)
		return raw, err
	}
	if err := at.within(p); err != nil {
		return nil, err
	}
	key := framecache.Key{Pack: p.ID, Offset: at.Offset}
	sealed := make([]byte, at.Sealed)
	if cache.Get(key, sealed) {
		if raw, _, err := r.openFrame(p, at, sealed, (*pack.Decompressor).OpenFrame); err == nil {
			return raw, nil
		}
		cache.Drop(key)
	}
	sealed, err := r.fetchFrame(ctx, p, at, nil)
	if err != nil {
		return nil, err
	}
	raw, _, err := r.openFrame(p, at, sealed, (*pack.Decompressor).OpenFrame)
	if err != nil {
		return nil, err
	}
	cache.Put(key, sealed, framecache.Fetched)
	return raw, nil
}
