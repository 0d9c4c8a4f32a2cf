package view

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// recentBlobs is how many blobs Recent keeps. Each may hold a frame of some MiB.
const recentBlobs = 8

// recent is a reader that keeps the blobs delivered last.
type recent struct {
	from  Reader
	blobs *repo.Recent[format.ID, []byte]
}

// Recent returns a reader that keeps the few blobs delivered last, for reads of less than a chunk: from verifies a blob
// each time it delivers it.
func Recent(from Reader) Reader {
	return &recent{from, repo.NewRecent[format.ID](recentBlobs, func([]byte) int { return 1 })}
}

func (r *recent) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	return r.blobs.Get(ctx, id, func() ([]byte, error) { return r.from.LoadBlob(ctx, id) })
}
