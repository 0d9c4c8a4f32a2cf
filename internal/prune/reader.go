package prune

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

const (
	// usualKept is Options.Kept if that is 0: some 500,000 blobs. A prune passes through the segments up to seven times,
	// and a far target then sends each of them once.
	usualKept = 16 << 20
	// leastAhead and mostAhead are how many segments are read ahead; more than leastAhead only if they are small.
	leastAhead, mostAhead = 3, 16
	smallBytes            = 16 << 20 // for all that are read ahead
)

// segmentReader reads segments and keeps them, opened. The name of a segment is its hash, so its content never changes.
type segmentReader struct {
	r *repo.Repository

	mu       sync.Mutex
	segments map[store.Name][]byte
	room     int // bytes that can still be kept
}

// newSegmentReader returns a reader of segments that keeps so many bytes of them; 0: usualKept.
func newSegmentReader(r *repo.Repository, bytes int) *segmentReader {
	return &segmentReader{r: r, room: cmp.Or(bytes, usualKept), segments: make(map[store.Name][]byte)}
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

// ahead returns how many of these segments are read ahead.
func ahead(segments []store.Info) int {
	largest := int64(1)
	for _, info := range segments {
		largest = max(largest, info.Size)
	}
	return int(min(max(smallBytes/largest, leastAhead), mostAhead))
}
