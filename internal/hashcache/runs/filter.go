package runs

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// maxFilters bounds the memory of all filters: enough for 13 million blobs. The filters of longer runs than fit are
	// left out, and those runs are asked themselves.
	maxFilters = 16 << 20
	// bitsPerBlob and probes give about one false alarm in a hundred.
	bitsPerBlob = 10
	probes      = 6
	// filterBlock is one cache line: all probes of a blob fall into it.
	filterBlock = 64
	// filterChunk is how much of a filter is one value in the file.
	filterChunk = 1000 * filterBlock
)

// filter is a blocked Bloom filter over the IDs of a run; nil: unknown, may contain everything. IDs are random already,
// so that their bytes serve as hashes. The block grows with the ID, so that a sorted run fills its filter from front to
// back and a sorted lookup reads it so.
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

// filterWriter makes the filter of a run while the run is written, holding one chunk of it.
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

// flush writes the chunk and begins the next one.
func (w *filterWriter) flush() error {
	if w.chunk != nil {
		if err := w.bucket.Put(number(w.number), w.chunk); err != nil { // bbolt keeps it until the commit
			return err
		}
		w.number++
	}
	w.chunk = make([]byte, min(filterChunk, int64(w.blocks)*filterBlock-int64(w.number)*filterChunk))
	return nil
}

// finish writes the rest; chunks after the last blob are all zero and left out.
func (w *filterWriter) finish() error {
	if w.chunk == nil {
		return nil
	}
	return w.bucket.Put(number(w.number), w.chunk)
}

// filterSet is what is known about the runs at a moment. It does not change.
type filterSet struct{ runs []runFilter }

type runFilter struct {
	number uint32
	filter filter
}

// of returns the filter of a run, which may have come or gone since the set was made.
func (s *filterSet) of(n uint32) filter {
	for i := range s.runs {
		if s.runs[i].number == n {
			return s.runs[i].filter
		}
	}
	return nil
}

// loadedFilters returns the filters, which are read at the first lookup and not at Open.
func (x *Index) loadedFilters() (*filterSet, error) {
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

// refreshFilters follows a change of the runs.
func (x *Index) refreshFilters() error {
	x.loading.Lock()
	defer x.loading.Unlock()
	if x.filters.Load() == nil {
		return nil // nobody asked so far
	}
	return x.readFilters()
}

// readFilters makes a new set, taking over what is in memory. Newer runs come first: they are asked first, and shorter.
// The caller holds x.loading.
func (x *Index) readFilters() error {
	old := x.filters.Load()
	if old == nil {
		old = &filterSet{}
	}
	set := &filterSet{}
	err := x.db.View("read filters of the cache", func(tx *bolt.Tx) error {
		runs, err := listRuns(tx, nil)
		if err != nil {
			return err
		}
		room := int64(maxFilters)
		for i := len(runs) - 1; i >= 0; i-- {
			f := runFilter{number: runs[i].number}
			if size := int64(runs[i].blocks) * filterBlock; size <= room {
				room -= size
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
	chunks := tx.Bucket([]byte(bucketFilters)).Bucket(number(r.number))
	if chunks == nil || r.blocks == 0 {
		return nil, fmt.Errorf("filter of run %d: %w", r.number, ErrDamaged)
	}
	f := make(filter, int64(r.blocks)*filterBlock)
	err := wary.Each(chunks, func(k, v []byte) error {
		if len(k) != 4 {
			return fmt.Errorf("filter of run %d: %w", r.number, ErrDamaged)
		}
		at := int64(binary.BigEndian.Uint32(k)) * filterChunk
		if at+int64(len(v)) > int64(len(f)) {
			return fmt.Errorf("filter of run %d: %w", r.number, ErrDamaged)
		}
		copy(f[at:], v)
		return nil
	})
	return f, err
}
