package cachefile

import (
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

const (
	// residentMax is how many bytes of mappings may stay resident.
	residentMax = 8 << 20
	// faultAround is how many bytes one page fault makes resident: the kernel maps up to sixteen cached pages around
	// it, whatever madvise says.
	faultAround = 64 << 10
)

// Mapping bounds the resident size of several files together. Its zero value is ready for use.
type Mapping struct {
	total atomic.Int64 // bytes of the files
	max   atomic.Int64 // bytes; 0: residentMax
}

// residence limits the resident size of a mapping. bbolt maps the whole file, and each page that was read stays in the
// page tables of the process: half a gigabyte after a run over 28 million files. madvise(MADV_DONTNEED) removes the
// pages from the page tables but not from the page cache, so the next access is a minor fault. Files that together are
// not larger than the bound stay. Otherwise each of them has a part of the bound, in proportion to its size.
type residence struct {
	of       *Mapping
	size     atomic.Int64 // bytes that of counts for this file; 0: it has grown since
	touches  atomic.Int64
	released atomic.Int64 // number of calls of release
}

// share begins to count a file of that size.
func (r *residence) share(of *Mapping, size int64) {
	if of == nil {
		of, size = &Mapping{}, 0 // the size of the file follows from each transaction
	}
	r.of = of
	r.size.Store(size)
	of.total.Add(size)
}

func (r *residence) forget() {
	if r.of != nil {
		r.of.total.Add(-r.size.Swap(0))
	}
}

// allowed returns how many bytes of the file may be resident; all if the bound is not reached.
func (r *residence) allowed(tx *bolt.Tx) (bytes int64, all bool) {
	if r.of == nil {
		return 0, true // while it is opened
	}
	limit := r.of.max.Load()
	if limit == 0 {
		limit = residentMax
	}
	size := r.size.Load()
	if size == 0 {
		return limit, tx.Size() <= limit
	}
	total := max(r.of.total.Load(), 1)
	return int64(float64(limit) * float64(size) / float64(total)), total <= limit
}

// touched counts an access to a random place of the file and releases the mapping after enough of them. The caller is
// inside tx, so the file is not remapped meanwhile.
func (r *residence) touched(db *bolt.DB, tx *bolt.Tx) {
	if most, all := r.allowed(tx); !all && r.touches.Add(1) >= max(most/faultAround, 1) {
		r.release(db, tx)
	}
}

// release releases the mapping at once, as after a sequential scan.
func (r *residence) release(db *bolt.DB, tx *bolt.Tx) {
	if _, all := r.allowed(tx); all {
		return
	}
	r.touches.Store(0)
	r.released.Add(1)
	// Every page of a transaction lies inside the mapping. After an error the pages stay resident.
	dropPages(db.Info().Data, uintptr(tx.Size()))
}
