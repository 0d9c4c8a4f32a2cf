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
	bucket *bolt.Bucket
	blocks uint32
	number uint32 // of the chunk
	chunk  []byte
}

func newFilterWriter(blobs uint64) *filterWriter {
	blocks := (blobs*bitsPerBlob + filterBlock*8 - 1) / (filterBlock * 8)
	return &filterWriter{blocks: uint32(min(max(blocks, 1), math.MaxUint32))}
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
		if err := w.bucket.Put(cachefile.Number(w.number), w.chunk); err != nil { // bbolt keeps it until the commit
			return err
		}
		w.number++
	}
	w.chunk = make([]byte, min(filterChunk, int64(w.blocks)*filterBlock-int64(w.number)*filterChunk))
	return nil
}

// finish writes the rest. Chunks after the last blob are zero and not stored.
func (w *filterWriter) finish() error {
	if w.chunk == nil {
		return nil
	}
	return w.bucket.Put(cachefile.Number(w.number), w.chunk)
}

// filterSet is an immutable list of the runs and their filters.
type filterSet struct{ runs []runFilter }

type runFilter struct {
	number uint32
	filter filter
}

// of returns the filter of a run, nil if the set does not list it.
func (s *filterSet) of(n uint32) filter {
	for i := range s.runs {
		if s.runs[i].number == n {
			return s.runs[i].filter
		}
	}
	return nil
}

// loadedFilters returns the filters, which the first lookup reads.
func (x *sortedRuns) loadedFilters() (*filterSet, error) {
	if s := x.filters.Load(); s != nil {
		return s, nil
	}
	x.loading.Lock()
	defer x.loading.Unlock()
	if s := x.filters.Load(); s != nil {
		return s, nil
	}
	if err := x.readFilters(); err != nil {
		return nil, err
	}
	return x.filters.Load(), nil
}

// refreshFilters updates the filters after a change of the runs.
func (x *sortedRuns) refreshFilters() error {
	x.loading.Lock()
	defer x.loading.Unlock()
	if x.filters.Load() == nil {
		return nil // no lookup so far
	}
	return x.readFilters()
}

// readFilters builds a new set from the old one and the file. Newer runs come first, which are shorter and searched
// first. The caller holds x.loading.
func (x *sortedRuns) readFilters() error {
	old := x.filters.Load()
	if old == nil {
		old = &filterSet{}
	}
	set := &filterSet{}
	err := x.file.View("read filters of the cache", func(tx *bolt.Tx) error {
		runs, err := listRuns(tx, nil)
		if err != nil {
			return err
		}
		left := int64(maxFilters)
		for i := len(runs) - 1; i >= 0; i-- {
			f := runFilter{number: runs[i].number}
			if size := int64(runs[i].blocks) * filterBlock; size <= left {
				left -= size
				if f.filter = old.of(f.number); f.filter == nil {
					if f.filter, err = readFilter(tx, &runs[i]); err != nil {
						return err
					}
				}
			}
			set.runs = append(set.runs, f)
		}
		return nil
	})
	if err == nil {
		x.filters.Store(set)
	}
	return err
}

func readFilter(tx *bolt.Tx, r *run) (filter, error) {
	chunks := cachefile.Bucket(tx, bucketFilters).Bucket(cachefile.Number(r.number))
	if chunks == nil || r.blocks == 0 {
		return nil, fmt.Errorf("filter of run %d: %w", r.number, cachefile.ErrDamaged)
	}
	f := make(filter, int64(r.blocks)*filterBlock)
	err := cachefile.Each(chunks, func(k, v []byte) error {
		if len(k) != 4 {
			return fmt.Errorf("filter of run %d: %w", r.number, cachefile.ErrDamaged)
		}
		at := int64(binary.BigEndian.Uint32(k)) * filterChunk
		if at+int64(len(v)) > int64(len(f)) {
			return fmt.Errorf("filter of run %d: %w", r.number, cachefile.ErrDamaged)
		}
		copy(f[at:], v)
		return nil
	})
	return f, err
}
