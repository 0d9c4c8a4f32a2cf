package view

import (
	"context"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// recentBlobs is how many blobs Recent keeps. Each may hold a frame of some MiB.
const recentBlobs = 8

// recent is a reader that keeps the blobs delivered last.
type recent struct {
	from Reader

	mu    sync.Mutex
	ids   [recentBlobs]format.ID
	blobs [recentBlobs][]byte
	next  int // is replaced next
}

// Recent returns a reader that keeps the few blobs delivered last, for reads of less than a chunk: from verifies a blob
// each time it delivers it.
func Recent(from Reader) Reader { return &recent{from: from} }

func (r *recent) LoadBlob(ctx context.Context, id format.ID) ([]byte, error) {
	r.mu.Lock()
	for i := range r.ids {
		if r.ids[i] == id && r.blobs[i] != nil {
			blob := r.blobs[i]
			r.mu.Unlock()
			return blob, nil
		}
	}
	r.mu.Unlock()
	blob, err := r.from.LoadBlob(ctx, id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[r.next], r.blobs[r.next] = id, blob
	r.next = (r.next + 1) % recentBlobs
	return blob, nil
}
