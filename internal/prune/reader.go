package prune

import (
	"context"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// kept is how many bytes of segments a prune keeps in memory: some 500,000 blobs. It passes through the segments up to
// seven times, and a far target then sends each of them once.
const kept = 16 << 20

// segmentReader reads segments and keeps them, opened. The name of a segment is its hash, so its content never changes.
type segmentReader struct {
	r *repo.Repository

	mu       sync.Mutex
	segments map[store.Name][]byte
	room     int // bytes that can still be kept
}

func newSegmentReader(r *repo.Repository) *segmentReader {
	return &segmentReader{r: r, room: kept, segments: make(map[store.Name][]byte)}
}

// segment returns a segment, from the target only if it is not kept.
func (k *segmentReader) segment(ctx context.Context, info store.Info) (*index.Segment, error) {
	k.mu.Lock()
	plain, had := k.segments[info.Name]
	k.mu.Unlock()
	if !had {
		var err error
		if plain, err = object.Load(ctx, k.r.Store(), k.r.Keys(), info.Name, info.Size); err != nil {
			return nil, err
		}
		k.keep(info.Name, plain)
	}
	seg, err := index.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return seg, nil
}

func (k *segmentReader) keep(name store.Name, plain []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(plain) <= k.room {
		k.segments[name] = plain
		k.room -= len(plain)
	}
}
