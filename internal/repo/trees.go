package repo

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// loadFrame returns an opened frame: a tree frame from the local folder if it is there, otherwise from the target.
//
// A local copy that opens is the frame that was stored: the seal binds it to the key, the pack and its offset in the
// pack. One that does not open is dropped and fetched, so local damage costs only time.
func (r *Repository) loadFrame(ctx context.Context, p index.PackInfo, at Span) ([]byte, error) {
	cache := r.trees
	if cache == nil || p.Kind() != pack.Trees {
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
