package repo

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// loadFromFresh retries a blob whose cached location failed, with the location in the fresh index. If that is the same
// or unknown, the error is the first one.
func (r *Repository) loadFromFresh(ctx context.Context, id format.ID, at place, first error) ([]byte, error) {
	if !object.IsDamage(first) && !errors.Is(first, store.ErrNotExist) {
		return nil, first
	}
	var now place
	found, err := r.index.Fresh(ctx, func(in index.Source) (ok bool, err error) {
		now, ok, err = lookUp(in, id)
		return ok, err
	})
	if err != nil || !found || now == at {
		return nil, first
	}
	blob, err := r.loadFrom(ctx, id, now)
	if err != nil {
		return nil, first
	}
	r.index.MarkStale()
	return blob, nil
}
