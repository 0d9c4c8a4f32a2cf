package index

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Sorted runs: the blobs of a FileIndex.
//
// Blob IDs are random, and each random insert into a B+tree rewrites a page of 4 KiB: 80 GB for 20 million blobs.
// Therefore each merged segment becomes a run of its own: sorted, packed into blocks of about forty blobs and written
// once from front to back. When runsPerClass runs of one order of magnitude exist, they are merged into a longer one. A
// blob costs some 50 bytes and is rewritten about three times in its life. A lookup searches the runs from the newest
// to the oldest, so the newest location of a blob counts. A Bloom filter of 10 bits per blob beside each run rejects
// nearly all new blobs without access to the run. At most maxFilters bytes of filters are in memory.

// Loc is the location of a blob.
type Loc struct {
	Pack           uint32 // number of the pack in this index
	Offset, Sealed uint32 // of the frame in the pack
	Skip           uint32 // offset of the blob in the raw frame
	Len            uint32 // bytes
}

// Found is the result of a lookup.
type Found struct {
	Loc Loc
	OK  bool
}

// record is a blob and its location.
type record struct {
	id  format.ID
	loc Loc
}

const (
	// runsPerClass is how many runs of one order of magnitude may exist, and the factor between orders. With 8, a blob
	// among 20 million was rewritten three times, and a lookup searches some ten runs.
	runsPerClass = 8
	// smallRun is the order of magnitude that all short runs share.
	smallRun = 4096
	// blockBytes is the size at which a block ends: two blocks and their keys fill a page of 4 KiB.
	blockBytes = 1900
	// blobsPerCommit is how many blobs one transaction of a merge of runs copies: about 6 MiB of memory.
	blobsPerCommit = 128 << 10
)

// The buckets of the runs.
const (
	bucketRuns    = "runs"    // run number u32 -> run
	bucketBlobs   = "blobs"   // run number u32 -> bucket: last ID of a block -> block
	bucketFilters = "filters" // run number u32 -> bucket: chunk number u32 -> chunk
)

func runBuckets() []string { return []string{bucketRuns, bucketBlobs, bucketFilters} }

// sortedRuns looks blobs up. It is safe for concurrent use, with one writer at a time.
type sortedRuns struct {
	file    *cachefile.File
	loading sync.Mutex // held while filters are read, so that an earlier set never replaces a later one
	filters atomic.Pointer[filterSet]
	scratch sync.Pool // *lookup
	step    int       // blobsPerCommit, which tests reduce
}

func newSortedRuns(f *cachefile.File) *sortedRuns {
	x := &sortedRuns{file: f, step: blobsPerCommit}
	x.scratch.New = func() any { return new(lookup) }
	return x
}

// clearRuns deletes all blobs. settle must follow the commit.
func clearRuns(tx *bolt.Tx) error {
	// Numbers continue: none is used for two runs, so filters in memory are never mistaken.
	sequence := cachefile.Bucket(tx, bucketRuns).Sequence()
	if err := recreate(tx, runBuckets()); err != nil {
		return err
	}
	return cachefile.Bucket(tx, bucketRuns).SetSequence(sequence)
}

// recreate empties buckets.
func recreate(tx *bolt.Tx, names []string) error {
	for _, name := range names {
		if err := tx.DeleteBucket([]byte(name)); err != nil {
			return err
		}
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

// writeRun makes records, in any order, the newest run. Of records of one ID, the last counts. settle must follow the
// commit.
func writeRun(tx *bolt.Tx, records []record) error {
	if len(records) == 0 {
		return nil
	}
	w, err := newRunWriter(tx, uint64(len(records)))
	if err != nil {
		return err
	}
	for i := range sorted(records, nil) {
		if err := w.add(&records[i].id, &records[i].loc); err != nil {
			return err
		}
	}
	return w.finish()
}

// prefixed is the index of an item and the first bytes of its ID. IDs are random, so the prefix nearly always decides a
// comparison, and sorting moves 16 bytes instead of a whole record.
type prefixed struct {
	prefix uint64
	at     uint32
}

func prefixOf(id []byte) uint64 { return binary.BigEndian.Uint64(id) }

// sorted yields the indexes of records by ascending ID; of equal IDs, the one of the lowest order, and of these the
// last. Without orders all are equal.
func sorted(records []record, orders []uint32) func(yield func(uint32) bool) {
	order := make([]prefixed, len(records))
	for i := range records {
		order[i] = prefixed{prefixOf(records[i].id[:]), uint32(i)}
	}
	slices.SortFunc(order, func(a, b prefixed) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if c := records[a.at].id.Compare(records[b.at].id); c != 0 {
			return c
		}
		if orders != nil && orders[a.at] != orders[b.at] {
			return cmp.Compare(orders[b.at], orders[a.at])
		}
		return cmp.Compare(a.at, b.at)
	})
	return func(yield func(uint32) bool) {
		for i, o := range order {
			if i+1 < len(order) && order[i+1].prefix == o.prefix && records[order[i+1].at].id == records[o.at].id {
				continue
			}
			if !yield(o.at) {
				return
			}
		}
	}
}

// settle follows a change: it merges runs where there are too many, which occasionally rewrites most of the index, and
// updates the filters. Lookups continue meanwhile.
func (x *sortedRuns) settle() error {
	if err := x.compact(); err != nil {
		return err
	}
	return x.refreshFilters()
}
