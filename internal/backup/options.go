package backup

import (
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Source is what is backed up and how it is read.
type Source struct {
	Root      *Pick
	Rules     *rules.Set
	Skip      func(dev, ino uint64) bool // directories that never belong to their own backup
	Reading   Reading
	Comparing Comparing
	Gate      localfs.Gates // I/O gates of the devices that the sources lie on; nil: none
	// Rotational reports whether the device behind a pass is rotational, as far as is known by now; nil: none is. It is
	// called for each portion.
	Rotational func(pass *iopolicy.Pass) bool
	// Absent are sources, as in Label.Sources, that are not there, and the reason. Root leads to the others.
	Absent map[string]error
	Shrink ShrinkLimit
	Frozen *Frozen // nil: all sources are read live
	// ZerosAreHoles makes holes of chunks of zeros. It is always so where the file system's holes are not believed.
	ZerosAreHoles bool
	// Dataless reports whether the content of an object is not on this machine; nil: localfs.AttrDataless says it.
	Dataless func(st *localfs.Stat) bool
}

// Frozen describes snapshots of file systems from which the sources are read (Pick.ReadFrom).
type Frozen struct {
	Since   time.Time // before they were made
	mounted map[string]map[string]bool
}

// Mount notes a mount point below a source: what is mounted there is not in the snapshot and is read live. The path
// begins with that of the source.
func (f *Frozen) Mount(path string) {
	parent := filepath.Dir(path)
	if f.mounted[parent] == nil {
		f.mounted[parent] = map[string]bool{}
	}
	f.mounted[parent][filepath.Base(path)] = true
}

// NewFrozen returns the description of snapshots that were made after a time.
func NewFrozen(since time.Time) *Frozen {
	return &Frozen{Since: since, mounted: map[string]map[string]bool{}}
}

// scan returns the options of a walk. Its clock decides which timestamps are too new to show a later change.
func (s *Source) scan(workers int, l *report.Ledger) scan.Options {
	opt := scan.Options{Workers: workers, Rules: s.Rules, Skip: s.Skip, Ledger: l, Gate: s.Gate,
		View: scan.View{Dataless: s.Dataless}}
	if s.Frozen != nil {
		opt.View.Mounted, opt.Now = s.Frozen.mounted, func() time.Time { return s.Frozen.Since }
	}
	return opt
}

// Options of the stages.
type (
	Pick      = scan.SourceTree
	Reading   = read.Options
	Comparing = compare.Options
	Parent    = compare.Parent
)

// Sources turns the paths that a user named into the tree of sources: see scan.Sources.
func Sources(paths []string) (*Pick, error) { return scan.Sources(paths) }

// ParseOrder returns the order of a word of --read-order.
func ParseOrder(word string) (read.Order, error) { return read.ParseOrder(word) }

// digest digests the options that affect the content of a tree.
func (s *Source) digest() compare.Digest {
	return compare.OptionsDigest(uint8(s.Reading.Serialization), s.Reading.AccessTime, s.Comparing.IgnoreInode,
		s.Comparing.IgnoreCtime)
}

// Parallel sets the number of goroutines of each stage. Within a range, the run finds the best number while it goes on.
type Parallel struct {
	Scanners    int
	Readers     Range
	Compressors Range // that chunk, hash and compress
	Uploads     Range // packs in flight; the zero value: what the session has
	Level       Range // of compression, 1 to 4; the zero value: what the session has
	Memory      int64 // bytes of the buffers for file data in flight; 0: what the workers need
	// Processors that the run may keep busy on average; 0: sysinfo.AllowedCPUs, which reads several files of the kernel.
	Processors float64
	// Compute calls the work of a compressor, which returns soon after over reports true: see priority.Process. Nil: the
	// work is called as it is.
	Compute func(work func(over func() bool))
}

// compute calls the work of a compressor.
func (p *Parallel) compute(work func(over func() bool)) {
	if p.Compute == nil {
		work(never)
		return
	}
	p.Compute(work)
}

func never() bool { return false }

// Range is a number that may change during a run: at the start, and its limits. With Most zero it stays as it is.
type Range struct{ Start, Least, Most int }

// bounded returns r in order: none of its numbers is below one, and the start is within the limits.
func (r Range) bounded() Range {
	if r.Most <= 0 {
		r.Least, r.Most = r.Start, r.Start
	}
	r.Least = max(1, r.Least)
	r.Most = max(r.Least, r.Most)
	r.Start = min(max(r.Least, r.Start), r.Most)
	return r
}

// atMost returns r with none of its numbers above n.
func (r Range) atMost(n int) Range { return Range{min(r.Start, n), min(r.Least, n), min(r.Most, n)} }
