package repo

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Known looks blobs up without looking for more than the index has.
func (r *Repository) Known(ctx context.Context, ids []format.ID, out []index.Found) error {
	return r.index.Live(ctx).Lookup(ids, out)
}
