package report

import (
	"slices"
	"sync/atomic"
	"time"
)

// Counter is a number that many goroutines add to. It fills a cache line of its own, because neighbouring counters are
// added to by different workers all the time. Add once per batch or directory, not once per file, where you can.
type Counter struct {
	atomic.Uint64
	_ [56]byte
}

// The groups are generic so that the atomic counters of a Ledger and the plain numbers of Totals have one declaration:
// T is Counter in the one and uint64 in the other. The names in JSON are promised in docs/json.md.

// ObjectsOf counts file-system objects: files, directories, symbolic links, devices and so on. The first block has the
// meaning of the lines of the same name in TSM's session report.
type ObjectsOf[T any] struct {
	Inspected    T `json:"inspected"`    // considered, whatever became of it
	BackedUp     T `json:"backed_up"`    // data sent: new, or its content was read again
	Updated      T `json:"updated"`      // only metadata differed from the parent
	Unchanged    T `json:"unchanged"`    // nothing differed from the parent
	Rebound      T `json:"rebound"`      // always 0, since there are no management classes; for readers of TSM's report
	Deleted      T `json:"deleted"`      // removed from disk by us: extra entries of a restore with --delete
	Expired      T `json:"expired"`      // in the parent, now gone or excluded
	Failed       T `json:"failed"`       // not backed up, restored or checked; only Ledger.Fail counts it
	Encrypted    T `json:"encrypted"`    // whose content or metadata was sealed for the store
	Deduplicated T `json:"deduplicated"` // went through chunking
	Grew         T `json:"grew"`         // larger after compression, or longer at the end of reading than at its start
	Retries      T `json:"retries"`      // attempts beyond the first, summed over all objects

	Excluded T `json:"excluded"` // left out by a rule; not inspected. An excluded directory counts once, whatever is in it
	Changing T `json:"changing"` // changed while being read on every attempt: stored anyway (dynamic) or skipped (static)

	Files  T `json:"files"`  // of those inspected (restore: of those in the plan): regular files
	Dirs   T `json:"dirs"`   // directories
	Others T `json:"others"` // symbolic links, devices, fifos, sockets

	Restored T `json:"restored"` // restore: written, or their metadata set
	Kept     T `json:"kept"`     // restore: left as they were on disk, since they are equal or the overwrite rule says so
	Verified T `json:"verified"` // check: objects, blobs or stored files found intact
	Damaged  T `json:"damaged"`  // check: found missing or damaged
}

// ComparedOf counts the objects of one type by how they compare with the parent snapshot.
type ComparedOf[T any] struct {
	New        T `json:"new"`        // not in the parent
	Changed    T `json:"changed"`    // content or metadata differs
	Unmodified T `json:"unmodified"` // equal
}

// BytesOf counts bytes.
type BytesOf[T any] struct {
	Inspected T `json:"inspected"` // sum of the sizes of all files inspected
	// of these, sizes of files that must be read; the estimate of the time left needs it
	Wanted      T `json:"wanted"`
	Read        T `json:"read"`         // read from source files, retries included
	Skipped     T `json:"skipped"`      // wanted but will not be read after all: holes, files that failed or shrank
	Processed   T `json:"processed"`    // AfterDedup plus Trees, inside which tiny files are kept
	BeforeDedup T `json:"before_dedup"` // went through chunking
	AfterDedup  T `json:"after_dedup"`  // of these, in chunks the repository did not have
	Compressed  T `json:"compressed"`   // file data and trees after compression, before sealing
	Trees       T `json:"trees"`        // new tree pages and chunk lists, before compression
	Stored      T `json:"stored"`       // sealed bytes the store accepted, each pack once
	Transferred T `json:"transferred"`  // bytes sent to the store, retries included
	Fetched     T `json:"fetched"`      // bytes received from the store, retries included
	Restored    T `json:"restored"`     // restore: file data written, or found in place already
	Written     T `json:"written"`      // restore: of these, written to files: no holes; of a dry run: that would be
	Verified    T `json:"verified"`     // check: bytes read back and found intact
}

// PacksOf counts stored files of blobs.
type PacksOf[T any] struct {
	Stored  T `json:"stored"`
	Fetched T `json:"fetched"`
}

// TallyOf is all that is counted of objects and their data.
type TallyOf[T any] struct {
	Objects             ObjectsOf[T]
	Files, Dirs, Others ComparedOf[T] // by type
	Bytes               BytesOf[T]
	Blobs               struct{ New, Known T }  // chunks of file data, by whether the repository had them
	Trees               struct{ New, Reused T } // directories: made, or taken over from the parent
}

// fields returns all counters. It is the only place where they are enumerated; a test compares it with the
// declarations.
func (t *TallyOf[T]) fields() []*T {
	o, b := &t.Objects, &t.Bytes
	return []*T{
		&o.Inspected, &o.BackedUp, &o.Updated, &o.Unchanged, &o.Rebound, &o.Deleted, &o.Expired, &o.Failed,
		&o.Encrypted, &o.Deduplicated, &o.Grew, &o.Retries, &o.Excluded, &o.Changing, &o.Files, &o.Dirs, &o.Others,
		&o.Restored, &o.Kept, &o.Verified, &o.Damaged,
		&t.Files.New, &t.Files.Changed, &t.Files.Unmodified, &t.Dirs.New, &t.Dirs.Changed, &t.Dirs.Unmodified,
		&t.Others.New, &t.Others.Changed, &t.Others.Unmodified,
		&b.Inspected, &b.Wanted, &b.Read, &b.Skipped, &b.Processed, &b.BeforeDedup, &b.AfterDedup, &b.Compressed,
		&b.Trees, &b.Stored, &b.Transferred, &b.Fetched, &b.Restored, &b.Written, &b.Verified,
		&t.Blobs.New, &t.Blobs.Known, &t.Trees.New, &t.Trees.Reused,
	}
}

// Tally is what a worker counted by itself, to be added to the Ledger in one go: per directory or batch.
type Tally = TallyOf[uint64]

// Totals is a copy of a Ledger at one moment, in plain numbers. Counters are read one after another while workers go
// on, so sums over several of them may be off by what happened meanwhile; at the end of a job they are exact.
type Totals struct {
	Tally
	Packs     PacksOf[uint64]
	Job       Kind
	Phase     Phase
	Start     time.Time
	Elapsed   time.Duration
	Stages    StageTimes                // summed over all workers, those still running included
	Phases    [phaseCount]time.Duration // wall time by phase; adds up to Elapsed
	Workers   int                       // running now
	Failures  uint64                    // calls of Fail and Doubt
	Doubted   uint64                    // calls of Doubt
	Notes     uint64                    // calls of Note
	Expected  Expected
	Step      StepTotals   // of a phase that has a length of its own
	Gates     []Gate       // one for each device; none if nothing is gated
	Policies  []PolicySpan // the I/O policies that held, in order
	PoolSizes []PoolSizes  // of a backup, in order of time
	PID       int          // by which 'tidemark tier set' reaches the job; 0: it does not
	Limits    Limits
	Requests  Requests      // none: the store does not charge for them
	Outage    Outage        // of the target
	Limited   time.Duration // in which the limits held at least one transfer
	Uploaded  uint64        // bytes, if the upload rate is limited
}

// Expected is what the job is thought to amount to.
type Expected struct {
	Objects, Bytes uint64 // zero: unknown
	Exact          bool   // counted, not taken over from the parent
	Growing        bool   // counted so far: a lower bound
}

// Derived holds the figures of a session report that are computed from counters, by TSM's formulas. The ratios are
// parts of 1, not defined (0) where their denominator is zero, and negative if the overhead was larger than the gain.
type Derived struct {
	Moved          uint64        `json:"-"`                       // bytes over the wire: sent (backup) or received
	TransferTime   time.Duration `json:"-"`                       // summed over all sessions
	CompressedBy   float64       `json:"compressed_by"`           // 1 - transferred / processed
	DedupReduction float64       `json:"deduplication_reduction"` // 1 - after / before deduplication
	TotalReduction float64       `json:"total_data_reduction"`    // 1 - transferred / inspected
}

// Derive computes the figures that follow from the counters.
func (t *Totals) Derive() Derived {
	d := Derived{Moved: t.Bytes.Transferred, TransferTime: t.Stages[Store]}
	if t.Job != Backup {
		d.Moved, d.TransferTime = t.Bytes.Fetched, t.Stages[Fetch]
	}
	d.CompressedBy = reduction(t.Bytes.Transferred, t.Bytes.Processed)
	d.DedupReduction = reduction(t.Bytes.AfterDedup, t.Bytes.BeforeDedup)
	d.TotalReduction = reduction(t.Bytes.Transferred, t.Bytes.Inspected)
	return d
}

// reduction is 1 - part/whole, 0 without a whole.
func reduction(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 1 - float64(part)/float64(whole)
}

// PoolSizes is the numbers of workers of a backup and its compression level from one time on, and the measurement that
// led to them. The measurement is empty at the start.
type PoolSizes struct {
	Since       float64  `json:"since_seconds"` // from the start of the job
	Readers     int      `json:"readers"`       // in effect
	Compressors int      `json:"compressors"`
	Uploads     int      `json:"uploads"`
	Level       int      `json:"compression_level"`
	Bottleneck  string   `json:"bottleneck,omitempty"`       // reason: `source`, `processors` or `target`
	Speed       *float64 `json:"bytes_per_second,omitempty"` // throughput, plus 32 KiB per object
	Starved     *float64 `json:"starved,omitempty"`          // ratio: compressors without data
	Blocked     *float64 `json:"blocked,omitempty"`          // ratio: compressors blocked by the target
	Busy        *float64 `json:"busy,omitempty"`             // ratio: processor use outside gaps
}

// mostSizes bounds the memory for a run of several days.
const mostSizes = 256

// Resized records that c applies from now on. The newest 256 are kept.
func (l *Ledger) Resized(c PoolSizes) {
	c.Since = l.since().Seconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sizes) == mostSizes {
		l.sizes = slices.Delete(l.sizes, 0, 1)
	}
	l.sizes = append(l.sizes, c)
}
