package cachefile

import (
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

const (
	// residentMax is the size in bytes of the largest file that may stay resident as a whole.
	residentMax = 8 << 20
	// faultAround is how many bytes one page fault makes resident: the kernel maps up to sixteen cached pages around
	// it, whatever madvise says.
	faultAround = 64 << 10
)

// residence limits the resident size of the mapping. bbolt maps the whole file, and each page that was read stays in
// the page tables of the process: half a gigabyte after a run over 28 million files. madvise(MADV_DONTNEED) removes the
// pages from the page tables but not from the page cache, so the next access is a minor fault.
type residence struct {
	max      int64 // bytes: residentMax, which tests reduce
	touches  atomic.Int64
	released atomic.Int64 // number of calls of release
}

// touched counts n accesses to random places of the file and releases the mapping after enough of them. The caller is
// inside tx, so the file is not remapped meanwhile.
func (r *residence) touched(db *bolt.DB, tx *bolt.Tx, n int) {
	if tx.Size() > r.max && r.touches.Add(int64(n)) >= r.max/faultAround {
		r.release(db, tx)
	}
}

// release releases the mapping at once, as after a sequential scan.
func (r *residence) release(db *bolt.DB, tx *bolt.Tx) {
	if tx.Size() <= r.max {
		return
	}
	r.touches.Store(0)
	r.released.Add(1)
	// Every page of a transaction lies inside the mapping. After an error the pages stay resident.
	dropPages(db.Info().Data, uintptr(tx.Size()))
}
