package index

import (
	"fmt"
	"maps"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// MemoryBlobs is the default bound of a memory index: some 110 bytes of memory for each blob, 60 MB in all.
const MemoryBlobs = 1 << 19

// memoryIndex is the blob index of a run that has no disk for a cache. It holds a bounded number of blobs; blobs beyond
// the bound are left out, and full reports that. A backup then stores again what it meets again. Packs are always kept:
// there is one for some 16 MiB. It is safe for concurrent use.
type memoryIndex struct {
	limit int

	mu       sync.RWMutex
	blobs    map[format.ID]Loc
	packs    []PackInfo
	numbers  map[format.ID]uint32
	segments map[format.ID]int64
	leftOut  bool
}

func newMemoryIndex(limit int) *memoryIndex {
	x := &memoryIndex{limit: limit}
	x.empty()
	return x
}

func (x *memoryIndex) empty() {
	x.blobs, x.packs, x.leftOut = make(map[format.ID]Loc), nil, false
	x.numbers, x.segments = make(map[format.ID]uint32), make(map[format.ID]int64)
}

// full reports whether blobs were left out.
func (x *memoryIndex) full() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.leftOut
}

func (x *memoryIndex) Lookup(ids []format.ID, out []Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: space for %d results", len(ids), len(out))
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range ids {
		loc, ok := x.blobs[ids[i]]
		out[i] = Found{Loc: loc, OK: ok}
	}
	return nil
}

func (x *memoryIndex) Pack(n uint32) (PackInfo, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if int64(n) >= int64(len(x.packs)) {
		return PackInfo{}, fmt.Errorf("pack %d: %w", n, ErrNoPack)
	}
	return x.packs[n], nil
}

func (x *memoryIndex) Segments() (map[format.ID]int64, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.segments), nil
}

func (x *memoryIndex) Merge(id format.ID, seg *index.Segment) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, merged := x.segments[id]; merged {
		return nil
	}
	x.segments[id] = seg.Stored
	for i := range seg.Packs {
		n := x.enter(infoOf(&seg.Packs[i]))
		_ = eachBlob(&seg.Packs[i], func(id format.ID, loc Loc) error {
			loc.Pack = n
			x.add(id, loc)
			return nil
		})
	}
	return nil
}

func (x *memoryIndex) add(id format.ID, loc Loc) {
	if len(x.blobs) >= x.limit {
		if _, known := x.blobs[id]; !known {
			x.leftOut = true
			return
		}
	}
	x.blobs[id] = loc
}

// enter returns the number of a pack, which keeps the number that it has.
func (x *memoryIndex) enter(info PackInfo) uint32 {
	n, known := x.numbers[info.ID]
	if !known {
		n = uint32(len(x.packs))
		x.numbers[info.ID], x.packs = n, append(x.packs, info)
	}
	x.packs[n] = info
	return n
}

func (x *memoryIndex) Drop() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.empty()
	return nil
}

func (x *memoryIndex) Close() error { return x.Drop() }
