package view

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// recentBlobs is how many blobs Recent keeps. Each may hold a frame of some MiB.
const recentBlobs = 8

// Recent returns a Load that keeps the few blobs loaded last, for reads of less than a chunk: load verifies a blob each
// time it loads it. Blobs are not changed by the view.
func Recent(load tree.Load) tree.Load {
	blobs := repo.NewRecent[format.ID](recentBlobs, func([]byte) int { return 1 })
	return func(ctx context.Context, id format.ID) ([]byte, error) {
		return blobs.Get(ctx, id, func() ([]byte, error) { return load(ctx, id) })
	}
}
