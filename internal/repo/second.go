package repo

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/repo/blobindex"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// loadSecond tries once more a blob that could not be loaded from where the local cache says it lies, in case that
// place is wrong. If it is not, or nothing better is known, the error is the first one.
func (r *Repository) loadSecond(ctx context.Context, id format.ID, at place, first error) ([]byte, error) {
	if !object.IsDamage(first) && !errors.Is(first, store.ErrNotExist) {
		return nil, first
	}
	var now place
	found, err := r.index.Second(ctx, func(in blobindex.Places) (ok bool, err error) {
		now, ok, err = lookUp(in, id)
		return ok, err
	})
	now.loc.Pack = at.loc.Pack // numbers differ from index to index
	if err != nil || !found || now == at {
		return nil, first
	}
	blob, err := r.loadFrom(ctx, id, now)
	if err != nil {
		return nil, first
	}
	r.index.Disproved()
	return blob, nil
}
