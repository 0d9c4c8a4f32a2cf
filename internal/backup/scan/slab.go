package scan

import (
	"math/bits"
	"sync"
)

// The entries of an unchanged directory are needed for microseconds, so their memory is reused from directory to
// directory. The size of a slab is a power of two.
const (
	smallestSlab = 3 // as a power of two
	largestSlab  = 9 // of 512 entries, 48 KiB; more than that is left to the garbage collector
)

// slabs keeps free slabs by size. The garbage collector empties it.
type slabs [largestSlab + 1]sync.Pool

// slab is memory for entries.
type slab struct {
	pools   *slabs
	size    int // as a power of two
	entries []Entry
}

// of returns a slab for n entries, empty.
func (p *slabs) of(n int) *slab {
	size := max(bits.Len(uint(max(n, 1)-1)), smallestSlab)
	if size > largestSlab {
		return &slab{entries: make([]Entry, 0, n)}
	}
	if s, ok := p[size].Get().(*slab); ok {
		s.entries = s.entries[:0]
		return s
	}
	return &slab{p, size, make([]Entry, 0, 1<<size)}
}

// recycle frees s.
func (s *slab) recycle() {
	if s.pools != nil {
		s.pools[s.size].Put(s)
	}
}
