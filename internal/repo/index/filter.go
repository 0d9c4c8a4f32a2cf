package index

import (
	"encoding/binary"
	"math/bits"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// maxFilters bounds the memory of all filters: enough for 13 million blobs. Filters of the longest runs that exceed
	// it are not loaded, and lookups search those runs.
	maxFilters = 16 << 20
	// bitsPerBlob and probes give a false positive rate of about 1 %.
	bitsPerBlob = 10
	probes      = 6
	// filterBlock is one cache line: all probes of a blob fall into it.
	filterBlock = 64
)

// filter is a blocked Bloom filter over the IDs of a run; nil is unknown and may contain everything. IDs are random, so
// their bytes serve as hashes. The block number rises with the ID, so a sorted lookup reads it sequentially.
type filter []byte

// newFilter returns an empty filter for so many blobs; nil: it would never be loaded.
func newFilter(blobs uint64) filter {
	blocks := max((blobs*bitsPerBlob+filterBlock*8-1)/(filterBlock*8), 1)
	if blocks*filterBlock > maxFilters {
		return nil
	}
	return make(filter, blocks*filterBlock)
}

// block returns the block of an ID.
func (f filter) block(id *format.ID) []byte {
	n, _ := bits.Mul64(binary.BigEndian.Uint64(id[:]), uint64(len(f)/filterBlock))
	return f[n*filterBlock:][:filterBlock]
}

func (f filter) mayContain(id *format.ID) bool {
	if f == nil {
		return true
	}
	block := f.block(id)
	h := binary.LittleEndian.Uint64(id[8:])
	for range probes {
		if block[h>>3&(filterBlock-1)]&(1<<(h&7)) == 0 {
			return false
		}
		h >>= 9
	}
	return true
}

func (f filter) add(id *format.ID) {
	if f == nil {
		return
	}
	block := f.block(id)
	h := binary.LittleEndian.Uint64(id[8:])
	for range probes {
		block[h>>3&(filterBlock-1)] |= 1 << (h & 7)
		h >>= 9
	}
}
