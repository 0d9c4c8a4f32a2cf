// Package held is the index of blobs in memory, for a run whose local cache has no disk to lie on, or lost it.
//
// It is bounded: of blobs beyond the bound nothing is kept, and Full says so. A backup then stores again what it meets
// again, and loses nothing; who looks for a blob that is not here does not know whether it is in the repository. Packs
// are always kept: there is one for some 16 MiB.
//
// It refuses to know where index segments come from and what becomes of a run that does without one.
package held

import (
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Blobs is the usual bound: some 110 bytes of memory for each, 60 MB in all.
const Blobs = 1 << 19

// Index is the index. It is safe for concurrent use.
type Index struct {
	limit int

	mu       sync.RWMutex
	blobs    map[format.ID]hashcache.Loc
	packs    []hashcache.PackInfo
	numbers  map[format.ID]uint32
	segments map[format.ID]struct{}
	full     bool
}

// New returns an empty index of at most limit blobs.
func New(limit int) *Index {
	x := &Index{limit: limit}
	x.empty()
	return x
}

func (x *Index) empty() {
	x.blobs, x.packs, x.full = make(map[format.ID]hashcache.Loc), nil, false
	x.numbers, x.segments = make(map[format.ID]uint32), make(map[format.ID]struct{})
}

// Full reports whether blobs were left out.
func (x *Index) Full() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.full
}

// Lookup finds out where blobs lie; out must be as long as ids.
func (x *Index) Lookup(ids []format.ID, out []hashcache.Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: room for %d answers", len(ids), len(out))
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for i := range ids {
		loc, ok := x.blobs[ids[i]]
		out[i] = hashcache.Found{Loc: loc, OK: ok}
	}
	return nil
}

// Pack returns what is known of a pack, as hashcache.Cache does.
func (x *Index) Pack(n uint32) (hashcache.PackInfo, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if int64(n) >= int64(len(x.packs)) {
		return hashcache.PackInfo{}, fmt.Errorf("pack %d: %w", n, hashcache.ErrNoPack)
	}
	return x.packs[n], nil
}

// Segments returns the IDs of the index segments that were merged. The error is always nil.
func (x *Index) Segments() ([]format.ID, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := make([]format.ID, 0, len(x.segments))
	for id := range x.segments {
		ids = append(ids, id)
	}
	return ids, nil
}

// Merge adds what a segment says. A blob that is known already gets its new place. Merging a segment again changes
// nothing. The error is always nil.
func (x *Index) Merge(id format.ID, seg *index.Segment) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, merged := x.segments[id]; merged {
		return nil
	}
	x.segments[id] = struct{}{}
	for i := range seg.Packs {
		p := &seg.Packs[i]
		loc := hashcache.Loc{Pack: x.enter(p)}
		for _, f := range p.Table.Frames {
			loc.Offset, loc.Sealed, loc.Skip = f.Offset, f.Sealed, 0
			for _, b := range f.Blobs {
				loc.Len = b.Len
				x.add(b.ID, loc)
				loc.Skip += b.Len
			}
		}
	}
	return nil
}

func (x *Index) add(id format.ID, loc hashcache.Loc) {
	if len(x.blobs) >= x.limit {
		if _, known := x.blobs[id]; !known {
			x.full = true
			return
		}
	}
	x.blobs[id] = loc
}

// enter returns the number of a pack, the one it has if it is known.
func (x *Index) enter(p *index.Pack) uint32 {
	info := hashcache.PackInfo{ID: p.ID, Salt: p.Table.Salt, Kind: p.Table.Kind, Size: p.Size}
	n, known := x.numbers[p.ID]
	if !known {
		n = uint32(len(x.packs))
		x.numbers[p.ID], x.packs = n, append(x.packs, info)
	}
	x.packs[n] = info
	return n
}

// Drop forgets everything; numbers of packs begin anew. The error is always nil.
func (x *Index) Drop() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.empty()
	return nil
}

// Close gives the memory back. The error is always nil.
func (x *Index) Close() error { return x.Drop() }
