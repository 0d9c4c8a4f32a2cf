package hashcache

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// remembered is how many packs a Numbered remembers: more than there are goroutines that read trees.
const remembered = 64

// Numbered is a temporary cache in which each blob has a number, which a lookup answers in the place of the pack. So a set
// of blobs can be a bit for each, and is exact: different blobs have different numbers, and once nothing is merged any more
// a blob has one.
//
// Which pack a number lies in is known in memory: 16 bytes for each pack. It is safe for concurrent use, except for Merge.
type Numbered struct {
	cache *Cache
	spans []span // ascending
	last  [remembered]atomic.Pointer[lookedUp]
}

// span is the numbers of a pack, up to the next one.
type span struct {
	first uint64
	pack  uint32 // as the cache numbers it
}

// lookedUp is one pack.
type lookedUp struct {
	span int
	info PackInfo
}

// Number makes numbers for the blobs of a temporary cache that is empty.
func Number(c *Cache) *Numbered { return &Numbered{cache: c} }

// Close releases the file.
func (x *Numbered) Close() error { return x.cache.Close() }

// Merge adds packs. The blobs of each have the numbers from first on, in the order of its table; first must have one for
// each pack, above all numbers before. id is a name that nothing was merged under.
func (x *Numbered) Merge(id format.ID, packs []index.Pack, first []uint64) error {
	take := func(tx *bolt.Tx, seg *index.Segment) ([]runs.Record, error) {
		all, err := gather(tx, seg)
		if err != nil {
			return nil, err
		}
		rest := all
		for i := range seg.Packs {
			n := blobsOf(&seg.Packs[i])
			if first[i]+uint64(n) > math.MaxUint32 {
				return nil, fmt.Errorf("more than %d blobs: %w", uint32(math.MaxUint32), ErrTooMany)
			}
			if n == 0 {
				continue
			}
			x.spans = append(x.spans, span{first[i], rest[0].Loc.Pack})
			for j := range rest[:n] {
				rest[j].Loc.Pack = uint32(first[i]) + uint32(j)
			}
			rest = rest[n:]
		}
		return all, nil
	}
	return x.cache.merge(id, &index.Segment{Packs: packs}, take)
}

// Lookup finds out where blobs lie; out must be as long as ids. The Pack of each place is the number of the blob.
func (x *Numbered) Lookup(ids []format.ID, out []Found) error { return x.cache.Lookup(ids, out) }

// PackOf returns the pack in which the blob with that number lies.
func (x *Numbered) PackOf(number uint32) (PackInfo, error) {
	i, ok := slices.BinarySearchFunc(x.spans, uint64(number), func(s span, n uint64) int {
		switch {
		case s.first < n:
			return -1
		case s.first > n:
			return 1
		}
		return 0
	})
	if !ok {
		i--
	}
	if i < 0 {
		return PackInfo{}, fmt.Errorf("blob number %d: %w", number, ErrNoPack)
	}
	slot := &x.last[i%remembered]
	if had := slot.Load(); had != nil && had.span == i {
		return had.info, nil
	}
	info, err := x.cache.Pack(x.spans[i].pack)
	if err == nil {
		slot.Store(&lookedUp{i, info})
	}
	return info, err
}

func blobsOf(p *index.Pack) (n int) {
	for i := range p.Table.Frames {
		n += len(p.Table.Frames[i].Blobs)
	}
	return n
}
