package index

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
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
	// filterChunk is how much of a filter is one value in the file.
	filterChunk = 1000 * filterBlock
)

// filter is a blocked Bloom filter over the IDs of a run; nil is unknown and may contain everything. IDs are random, so
// their bytes serve as hashes. The block number rises with the ID, so a sorted run writes its filter sequentially and a
// sorted lookup reads it sequentially.
type filter []byte

func (f filter) mayContain(id *format.ID) bool {
	if f == nil {
		return true
	}
	block := f[blockOf(id, uint32(len(f)/filterBlock))*filterBlock:][:filterBlock]
	h := binary.LittleEndian.Uint64(id[8:])
	for range probes {
		if block[h>>3&(filterBlock-1)]&(1<<(h&7)) == 0 {
			return false
		}
		h >>= 9
	}
	return true
}

func mark(block []byte, id *format.ID) {
	h := binary.LittleEndian.Uint64(id[8:])
	for range probes {
		block[h>>3&(filterBlock-1)] |= 1 << (h & 7)
		h >>= 9
	}
}

func blockOf(id *format.ID, blocks uint32) int {
	high, _ := bits.Mul64(binary.BigEndian.Uint64(id[:]), uint64(blocks))
	return int(high)
}

// filterWriter builds the filter while its run is written, with one chunk in memory.
type filterWriter struct {
	put    func(key, value []byte) error
	blocks uint32
	number uint32 // of the chunk
	chunk  []byte
}

func newFilterWriter(blobs uint64, put func(key, value []byte) error) *filterWriter {
	blocks := (blobs*bitsPerBlob + filterBlock*8 - 1) / (filterBlock * 8)
	return &filterWriter{put: put, blocks: uint32(min(max(blocks, 1), math.MaxUint32))}
}

func (w *filterWriter) add(id *format.ID) error {
	at := blockOf(id, w.blocks) * filterBlock
	for n := uint32(at / filterChunk); w.chunk == nil || n != w.number; {
		if err := w.flush(); err != nil {
			return err
		}
	}
	mark(w.chunk[at%filterChunk:][:filterBlock], id)
	return nil
}

// flush writes the chunk and begins the next.
func (w *filterWriter) flush() error {
	if w.chunk != nil {
		if err := w.put(cachefile.Number(w.number), w.chunk); err != nil {
			return err
		}
		w.number++
	}
	w.chunk = make([]byte, min(filterChunk, int64(w.blocks)*filterBlock-int64(w.number)*filterChunk))
	return nil
}

// finish writes the rest, and chunks of zeros after the last blob.
func (w *filterWriter) finish() error {
	for last := uint32((int64(w.blocks)*filterBlock - 1) / filterChunk); w.chunk == nil || w.number < last; {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.put(cachefile.Number(w.number), w.chunk)
}

// readFilter reads a filter of that many blocks. A chunk that is missing or damaged would hide blobs.
func readFilter(b *bolt.Bucket, blocks uint32, get func(b *bolt.Bucket, key []byte, n int) ([]byte, error)) (filter,
	error) {
	f := make(filter, int64(blocks)*filterBlock)
	for at, n := 0, uint32(0); at < len(f); at, n = at+filterChunk, n+1 {
		part := f[at:min(at+filterChunk, len(f))]
		chunk, err := get(b, cachefile.Number(n), len(part))
		if err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
		copy(part, chunk)
	}
	return f, nil
}
