package hashcache

import (
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
)

const (
	// mappedEnough is the size in bytes of a file that may be resident as a whole. Below it nothing is ever let go.
	mappedEnough = 8 << 20
	// windowBytes is how much one look at a page makes resident: the kernel maps up to sixteen pages around it that are in
	// the page cache, whatever it was advised.
	windowBytes = 64 << 10
)

// residence keeps the mapping of the file from filling the resident set of the process. bbolt maps the whole file, and each
// page that was looked at stays in the page tables of the process for as long as it lives: of 28 million files, half a
// gigabyte by the end of a run, which counts as memory of this program and which the system takes back only when it is
// short. Letting go is cheap, as the pages stay in the page cache: the next look is a minor fault.
type residence struct {
	enough   int64 // bytes: mappedEnough, which tests make smaller
	looks    atomic.Int64
	released atomic.Int64 // how often the mapping was let go of
}

// looked books n looks at places of the file, and lets go of the mapping once there were enough. The caller is inside
// tx: while a transaction is open the file is not mapped anew.
func (r *residence) looked(db *bolt.DB, tx *bolt.Tx, n int) {
	if tx.Size() > r.enough && r.looks.Add(int64(n)) >= r.enough/windowBytes { // each of them somewhere else, at worst
		r.release(db, tx)
	}
}

// release lets go of the mapping at once, as after a transaction that has read the file from front to back.
func (r *residence) release(db *bolt.DB, tx *bolt.Tx) {
	if tx.Size() <= r.enough {
		return
	}
	r.looks.Store(0)
	r.released.Add(1)
	// Every page of a transaction lies inside the mapping. An error means no more than that nothing was released.
	letGo(db.Info().Data, uintptr(tx.Size()))
}
