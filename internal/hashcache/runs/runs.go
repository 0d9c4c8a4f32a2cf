// Package runs is an index of blob IDs inside a bbolt file.
//
// IDs are random, and a B+tree hates random inserts: each would rewrite a page of 4 KiB, 80 GB for 20 million blobs. So
// every batch becomes a *run* of its own, sorted, packed into blocks of about forty blobs and written once from front to
// back; as soon as runsPerClass runs of one order of magnitude have gathered, they are merged into a longer one. A blob
// costs some 50 bytes and is rewritten about three times in its life. A lookup asks the runs from the newest to the
// oldest, so that the newest place of a blob wins. A filter of 10 bits per blob, kept beside each run, says of nearly all
// new blobs that a run lacks them without touching the run; at most maxFilters bytes of filters are held.
//
// The package refuses to know what a pack is: its number is a number.
package runs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// ErrDamaged: the file does not hold what was written to it.
var ErrDamaged = errors.New("the local cache is damaged")

// Loc is where a blob lies.
type Loc struct {
	Pack           uint32 // number of the pack in this cache
	Offset, Sealed uint32 // of the frame in the pack
	Skip           uint32 // offset of the blob in the raw frame
	Len            uint32 // bytes
}

// Found is the answer to a lookup.
type Found struct {
	Loc Loc
	OK  bool
}

// Record is a blob and its place.
type Record struct {
	ID  format.ID
	Loc Loc
}

const (
	// runsPerClass is how many runs of one order of magnitude may stand side by side, and the factor between orders. With
	// 8, a blob among 20 million was rewritten three times, and a lookup asks some ten runs.
	runsPerClass = 8
	// smallRun is the order of magnitude that all short runs share.
	smallRun = 4096
	// blockBytes is the size at which a block ends: two and their keys fill a page of 4 KiB.
	blockBytes = 1900
	// perCommit is how many blobs one transaction of a merge of runs copies: about 6 MiB of memory.
	perCommit = 128 << 10
)

// The buckets. Numbers in keys are big-endian, so that keys are in the order of the numbers.
const (
	bucketRuns    = "runs"    // run number u32 -> run
	bucketBlobs   = "blobs"   // run number u32 -> bucket: last ID of a block -> block
	bucketFilters = "filters" // run number u32 -> bucket: chunk number u32 -> chunk
)

// Buckets returns the names of the top-level buckets that belong to this package.
func Buckets() []string { return []string{bucketRuns, bucketBlobs, bucketFilters} }

// DB is the file. what names the operation in an error.
type DB interface {
	View(what string, read func(tx *bolt.Tx) error) error
	Update(what string, change func(tx *bolt.Tx) error) error
	// Looked is told of each place of the file that was looked for inside tx, beside that of View itself.
	Looked(tx *bolt.Tx)
}

// Index looks blobs up. It is safe for concurrent use; of the calls that change something, one at a time.
type Index struct {
	db      DB
	loading sync.Mutex // held while filters are read, so that a later set is never replaced by an earlier one
	filters atomic.Pointer[filterSet]
	scratch sync.Pool // *lookup
	step    int       // perCommit, which tests make smaller
}

// New returns the index in db, whose buckets are there or are made by Create before the first use.
func New(db DB) *Index {
	x := &Index{db: db, step: perCommit}
	x.scratch.New = func() any { return new(lookup) }
	return x
}

// Create makes the buckets in a new file.
func Create(tx *bolt.Tx) error {
	for _, name := range Buckets() {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// Clear forgets all blobs. Settle must follow once tx is committed.
func Clear(tx *bolt.Tx) error {
	// Numbers go on: one never means two runs, so that filters in memory are never mistaken.
	sequence := tx.Bucket([]byte(bucketRuns)).Sequence()
	for _, name := range Buckets() {
		if err := tx.DeleteBucket([]byte(name)); err != nil {
			return err
		}
	}
	if err := Create(tx); err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketRuns)).SetSequence(sequence)
}

// Write makes records, which may be in any order, the newest run. Of records of one ID, the last counts. Settle must
// follow once tx is committed.
func Write(tx *bolt.Tx, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	w, err := newRunWriter(tx, uint64(len(records)))
	if err != nil {
		return err
	}
	order := sorted(records)
	for i, o := range order {
		r := &records[o.at]
		if i+1 < len(order) && order[i+1].head == o.head && records[order[i+1].at].ID == r.ID {
			continue
		}
		if err := w.add(&r.ID, &r.Loc); err != nil {
			return err
		}
	}
	return w.finish()
}

// place is where a record stands, with the first bytes of its ID.
type place struct {
	head uint64
	at   uint32
}

// sorted returns the order of records by ID; of equals, the later one comes last. Only places are moved, and as IDs are
// random their first bytes nearly always decide, and what moves is 16 bytes rather than 52.
func sorted(records []Record) []place {
	order := make([]place, len(records))
	for i := range records {
		order[i] = place{binary.BigEndian.Uint64(records[i].ID[:]), uint32(i)}
	}
	slices.SortFunc(order, func(a, b place) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(records[a.at].ID.Compare(records[b.at].ID), cmp.Compare(a.at, b.at))
	})
	return order
}

// Settle follows a change: it merges runs where there are too many, which now and then rewrites most of the index, and
// brings the filters up to date. Lookups go on meanwhile.
func (x *Index) Settle() error {
	if err := x.compact(); err != nil {
		return err
	}
	return x.refreshFilters()
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(make([]byte, 0, 4), n) }
