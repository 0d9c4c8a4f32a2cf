package repo

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// treeFrames is the local folder of tree frames, opened when the first one is needed.
type treeFrames struct {
	dir string // empty: none are kept
	opt treecache.Options

	mu     sync.Mutex
	cache  *treecache.Cache
	closed bool
}

// open returns the cache, or nil if there is none.
func (t *treeFrames) open() *treecache.Cache {
	if t.dir == "" {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cache == nil && !t.closed {
		t.cache = treecache.Open(t.dir, t.opt)
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

// keep stores the frames of a pack that a session has uploaded.
func (t *treeFrames) keep(id format.ID, data []byte, frames []pack.Frame) {
	cache := t.open()
	if cache == nil {
		return
	}
	for _, f := range frames {
		cache.Put(treecache.Key{Pack: id, Offset: f.Offset}, data[f.Offset:][:f.Sealed], treecache.Uploaded)
	}
}

// loadFrame returns an opened frame: a tree frame from the local folder if it is there, otherwise from the target.
//
// A local copy that opens is the frame that was stored: the seal binds it to the key, the pack and its offset in the
// pack. One that does not open is dropped and fetched, so local damage costs only time.
func (r *Repository) loadFrame(ctx context.Context, p index.PackInfo, at Span) ([]byte, error) {
	var cache *treecache.Cache
	if p.Kind() == pack.Trees {
		cache = r.trees.open()
	}
	if cache == nil {
		raw, _, err := r.ReadFrame(ctx, p, at.Offset, at.Sealed)
		return raw, err
	}
	if err := at.within(p); err != nil {
		return nil, err
	}
	key := treecache.Key{Pack: p.ID, Offset: at.Offset}
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
	cache.Put(key, sealed, treecache.Fetched)
	return raw, nil
}
