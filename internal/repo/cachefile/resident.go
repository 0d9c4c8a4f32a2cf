package cachefile

import (
	"cmp"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

const (
	// residentMax is how many bytes of a mapping may stay resident.
	residentMax = 8 << 20
	// faultAround is how many bytes one page fault makes resident: the kernel maps up to sixteen cached pages around
	// it, whatever madvise says.
	faultAround = 64 << 10
)

// residence limits the resident size of a mapping. bbolt maps the whole file, and each page that was read stays in the
// page tables of the process: half a gigabyte after a run over 28 million files. madvise(MADV_DONTNEED) removes the
// pages from the page tables but not from the page cache, so the next access is a minor fault. A file within the bound
// stays.
type residence struct {
	max      atomic.Int64 // bytes; 0: residentMax
	touches  atomic.Int64
	released atomic.Int64 // number of calls of release
}

func (r *residence) limit() int64 { return cmp.Or(r.max.Load(), residentMax) }

// touched counts an access to a random place of the file and releases the mapping after enough of them. The caller is
// inside tx, so the file is not remapped meanwhile.
func (r *residence) touched(db *bolt.DB, tx *bolt.Tx) {
	if most := r.limit(); tx.Size() > most && r.touches.Add(1) >= max(most/faultAround, 1) {
		r.release(db, tx)
	}
}

// release releases the mapping at once, as after a sequential scan.
func (r *residence) release(db *bolt.DB, tx *bolt.Tx) {
	if tx.Size() <= r.limit() {
		return
	}
	r.touches.Store(0)
	r.released.Add(1)
	// Every page of a transaction lies inside the mapping. After an error the pages stay resident.
	dropPages(db.Info().Data, uintptr(tx.Size()))
}
