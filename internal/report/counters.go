package report

import (
	"sync/atomic"
	"time"
)

// Counter is a number that many goroutines add to. It fills a cache line of its own, because neighbouring counters are
// added to by different workers all the time. Add once per batch or directory, not once per file, where you can.
type Counter struct {
	n atomic.Uint64
	_ [56]byte
}

// Add adds n and returns the new value.
func (c *Counter) Add(n uint64) uint64 { return c.n.Add(n) }

// Load returns the value.
func (c *Counter) Load() uint64 { return c.n.Load() }

// The groups are generic so that the atomic counters of a Ledger and the plain numbers of Totals have one declaration:
// T is Counter in the one and uint64 in the other.

// ObjectsOf counts file-system objects: files, directories, symbolic links, devices and so on. The first block has the
// meaning of the lines of the same name in TSM's session report.
type ObjectsOf[T any] struct {
	Inspected    T // considered, whatever became of it
	BackedUp     T // data sent: new, or its content was read again
	Updated      T // only metadata differed from the parent
	Unchanged    T // nothing differed from the parent
	Rebound      T // stored under other options than in the parent, with the same content
	Deleted      T // removed from disk by us: extra entries of a restore with --delete
	Expired      T // in the parent, now gone or excluded
	Failed       T // could not be backed up, restored or checked; counted by Ledger.Fail and nobody else
	Encrypted    T // whose content or metadata was sealed for the store
	Deduplicated T // went through chunking
	Grew         T // larger after compression, or longer at the end of reading than at its start
	Retries      T // attempts beyond the first, summed over all objects

	Excluded T // left out by a rule; not inspected. An excluded directory counts once, whatever is in it
	Changing T // changed while being read on every attempt: stored anyway (dynamic) or skipped (static)

	Files  T // of those inspected (restore: of those in the plan): regular files
	Dirs   T // directories
	Others T // symbolic links, devices, fifos, sockets

	Restored T // restore: written, or their metadata set
	Kept     T // restore: left as they were on disk, since they are equal or the overwrite rule says so
	Verified T // check: objects, blobs or stored files that were looked at and found whole
	Damaged  T // check: looked at and found missing or not whole
}

// ComparedOf counts the objects of one type by how they compare with the parent snapshot.
type ComparedOf[T any] struct {
	New        T // not in the parent
	Changed    T // content or metadata differs
	Unmodified T // equal
}

// BytesOf counts bytes.
type BytesOf[T any] struct {
	Inspected   T // sum of the sizes of all files inspected
	Wanted      T // of these, sizes of files that must be read: new or changed. The estimate of what is left needs it
	Read        T // read from source files, retries included
	Skipped     T // wanted but will not be read after all: holes, files that failed or shrank
	Processed   T // after deduplication, before compression, plus data that is not eligible (kept inside nodes)
	BeforeDedup T // went through chunking
	AfterDedup  T // of these, in chunks the repository did not have
	Compressed  T // file data and trees after compression, before sealing
	Trees       T // new tree pages and chunk lists, before compression
	Stored      T // sealed bytes the store accepted, each pack once
	Transferred T // bytes sent to the store, retries included
	Fetched     T // bytes received from the store, retries included
	Restored    T // restore: file data written, or found in place already
	Verified    T // check: bytes read back and found whole
}

// BlobsOf counts chunks of file data by whether the repository had them.
type BlobsOf[T any] struct{ New, Known T }

// TreesOf counts directories by whether their tree had to be made or could be taken over from the parent.
type TreesOf[T any] struct{ New, Reused T }

// PacksOf counts stored files of blobs.
type PacksOf[T any] struct{ Stored, Fetched T }

// The groups as a Ledger holds them.
type (
	Objects  = ObjectsOf[Counter]
	Compared = ComparedOf[Counter]
	Bytes    = BytesOf[Counter]
	Blobs    = BlobsOf[Counter]
	Trees    = TreesOf[Counter]
	Packs    = PacksOf[Counter]
)

// The field lists below are the only place where a group is enumerated; a test holds them against the declarations.

func (o *ObjectsOf[T]) fields() []*T {
	return []*T{
		&o.Inspected, &o.BackedUp, &o.Updated, &o.Unchanged, &o.Rebound, &o.Deleted, &o.Expired, &o.Failed,
		&o.Encrypted, &o.Deduplicated, &o.Grew, &o.Retries, &o.Excluded, &o.Changing, &o.Files, &o.Dirs, &o.Others,
		&o.Restored, &o.Kept, &o.Verified, &o.Damaged,
	}
}

func (c *ComparedOf[T]) fields() []*T { return []*T{&c.New, &c.Changed, &c.Unmodified} }

func (b *BytesOf[T]) fields() []*T {
	return []*T{
		&b.Inspected, &b.Wanted, &b.Read, &b.Skipped, &b.Processed, &b.BeforeDedup, &b.AfterDedup, &b.Compressed,
		&b.Trees, &b.Stored, &b.Transferred, &b.Fetched, &b.Restored, &b.Verified,
	}
}

func (b *BlobsOf[T]) fields() []*T { return []*T{&b.New, &b.Known} }
func (t *TreesOf[T]) fields() []*T { return []*T{&t.New, &t.Reused} }
func (p *PacksOf[T]) fields() []*T { return []*T{&p.Stored, &p.Fetched} }

func load(to []*uint64, from []*Counter) {
	for i, c := range from {
		*to[i] = c.Load()
	}
}

func add(to []*Counter, from []*uint64) {
	for i, n := range from {
		if *n != 0 {
			to[i].Add(*n)
		}
	}
}

// Tally is what a worker counted by itself, to be added to the Ledger in one go: per directory or batch.
type Tally struct {
	Objects             ObjectsOf[uint64]
	Files, Dirs, Others ComparedOf[uint64]
	Bytes               BytesOf[uint64]
	Blobs               BlobsOf[uint64]
	Trees               TreesOf[uint64]
}

// Totals is a copy of a Ledger at one moment, in plain numbers. Counters are read one after another while workers go
// on, so sums over several of them may be off by what happened meanwhile; at the end of a job they are exact.
type Totals struct {
	Tally
	Packs    PacksOf[uint64]
	Job      Job
	Phase    Phase
	Start    time.Time
	Elapsed  time.Duration
	Stages   StageTimes // summed over all workers, those still running included
	Phases   PhaseTimes // wall time by phase; adds up to Elapsed
	Workers  int        // running now
	Failures uint64     // calls of Fail
	Notes    uint64     // calls of Note
	Expected Expected
}

// Expected is what the job is thought to amount to.
type Expected struct {
	Objects, Bytes uint64 // zero: unknown
	Exact          bool   // counted, not taken over from the parent
}
