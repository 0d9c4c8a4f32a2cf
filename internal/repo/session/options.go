package session

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Options are the options of a session. The zero value selects the defaults.
type Options struct {
	Holder
	Level   int               // compression: 0 default, 1 fastest to 4 best, negative stores everything as it is
	Uploads int               // concurrent uploads of packs to the target; 0: 2
	Memory  int64             // bytes for the buffers of packs; 0: what Uploads needs; at least one pack of each kind
	DryRun  bool              // do all the work and write nothing
	Ledger  *report.Ledger    // counts what is stored, and the time for it; nil: none
	Note    func(text string) // gets messages for the user that are no errors, from any goroutine; nil: they are dropped
	Tuning  Tuning
}

// Holder describes the writer: in its lease, and by what it asks for first.
type Holder struct {
	Host string // shown to users as the machine that is writing
	Task string // name of the task, if only one writer may run it at a time

	// NoLock locks no file in the cache folder, by which other runs of this machine notice at once when this one ends.
	NoLock bool
	Packs  bool // LostPacks will be called: the packs are listed when the session begins
}

// Tuning holds sizes and intervals that only tests and experiments change. Zero values mean the defaults.
type Tuning struct {
	Frame    int              // bytes of file data gathered before they are compressed: 4 MiB; of trees at most 1 MiB
	DataPack int              // bytes at which a pack of file data is complete: 16 MiB
	TreePack int              // bytes at which a pack of trees is complete: 4 MiB
	Segment  int              // packs per index segment: 64
	Interval time.Duration    // longest time a stored pack waits for its index segment: 60 s
	OpenPack time.Duration    // longest time a pack is open before it is stored incomplete: 5 min
	Now      func() time.Time // wall clock; time.Now
}

// LeaseExpiry is how long a lease counts after its last renewal, by the clock of the target. It is six heartbeats, so a
// target that is away for half an hour does not end a run.
const LeaseExpiry = 6 * heartbeat

// heartbeat is how often a lease is renewed.
const heartbeat = 5 * time.Minute

// PackSize is at how many bytes a pack of file data is complete, unless Tuning overrides it.
const PackSize = 16 << 20

const (
	// SegmentPacks is how many packs an index segment names, unless Tuning overrides it.
	SegmentPacks = 64
	// SegmentBlobs ends an index segment early when its packs hold very many small blobs: until the merge, each of them
	// takes memory in claims and in tables.
	SegmentBlobs = 64 << 10
)

const (
	defaultLevel     = 2
	defaultUploads   = 2
	defaultFrame     = 4 << 20
	defaultTreeFrame = 1 << 20
	defaultDataPack  = PackSize
	defaultTreePack  = 4 << 20
	defaultInterval  = time.Minute
	defaultOpenPack  = 5 * time.Minute
)

func (o Options) withDefaults() Options {
	switch {
	case o.Level == 0:
		o.Level = defaultLevel
	case o.Level < 0:
		o.Level = 0
	}
	if o.Uploads <= 0 {
		o.Uploads = defaultUploads
	}
	if o.Ledger == nil {
		o.Ledger = report.New(time.Now)
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	t := &o.Tuning
	t.Frame = orDefault(t.Frame, defaultFrame)
	t.DataPack = orDefault(t.DataPack, defaultDataPack)
	t.TreePack = orDefault(t.TreePack, defaultTreePack)
	t.Segment = orDefault(t.Segment, SegmentPacks)
	t.Interval = orDefault(t.Interval, defaultInterval)
	t.OpenPack = orDefault(t.OpenPack, defaultOpenPack)
	if t.Now == nil {
		t.Now = time.Now
	}
	return o
}

// frame returns how many bytes are gathered for a frame of that kind. File data is read back in the order in which it
// was written, and larger frames compress better: 4 MiB make a repository of source code 4 % smaller than 1 MiB do, in
// less time. Trees are read one at a time, so their frames stay small.
func (t *Tuning) frame(kind pack.Kind) int {
	if kind == pack.Trees {
		return min(t.Frame, defaultTreeFrame)
	}
	return t.Frame
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
