// Package backup makes snapshots. The pipeline:
//
//	scan.Walk ── Directory ──► compare ──► batches ──► readers ──► pieces ──► workers ──► repo.Session
//	(N walkers)  compare.go    (blocks     (chan)      read.go     (chan)     process.go   frames, packs
//	                            the walk)              large.go               chunk, hash,
//	                                                   changing.go            claim, add
//	     every directory is a job (job.go); the last of its batches or children to end finishes it:
//	     finish.go   nodes ──► tree pages ──► tree ID ──► the parent's job ──► … ──► the root ──► snapshot
//
// A unit of work is a directory, a batch of small files, or about a mebibyte of a large one: nothing is handed over
// file by file. Backpressure runs against the arrows: a worker waits for the session, a reader for a buffer, the walk
// for room in the channel of batches. Nobody waits for something behind them, so there is no circle.
package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/backup/crew"
	"github.com/tidemark-backup/tidemark/internal/backup/owners"
	"github.com/tidemark-backup/tidemark/internal/backup/recall"
	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/processors"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/internal/tune"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Source is what is backed up and how it is looked at.
type Source struct {
	Root      *scan.Pick
	Rules     *rules.Set
	Skip      func(dev, ino uint64) bool // directories that never belong to their own backup
	Reading   Reading
	Comparing Comparing
	Gate      localfs.Gates // the ways to the devices that the sources lie on; nil: no gates
	// Turns tells whether what lies behind a pass is a disk that turns, as far as is known by now; nil: none does. It is
	// asked for each batch.
	Turns func(pass *iopolicy.Pass) bool
}

// Reading says how files are read.
type Reading struct {
	Serialization Serialization
	Retries       int  // attempts after the first on a file that changes
	AccessTime    bool // keep access times
	Singly        bool // one small file after the other, rather than those of a directory together
	Cached        bool // through the page cache, also small files that are not in it
	Order         Order
}

// Comparing says what counts as unchanged.
type Comparing struct {
	Force       bool // read everything, whatever the parent says
	IgnoreInode bool
	IgnoreCtime bool
	// Relist: read the names in every directory, and remember none. Without ctime it is always so.
	Relist bool
}

// Parallel is how many goroutines do what. Where a range leaves room, the run finds out what is best while it goes on.
type Parallel struct {
	Scanners int
	Readers  Range
	Workers  Range // that chunk, hash and compress
	Uploads  Range // packs under way; the zero value: what the session has
	Level    Range // of compression, 1 to 4; the zero value: what the session has
	Memory   int64 // bytes of the buffers for file data under way; 0: what the workers need
	// Processors that the run may keep busy on average, as processors.Allowed tells; 0: it asks, which takes several files
	// of the kernel.
	Processors float64
}

// Range is a number that may change during a run.
type Range = crew.Range

// Parent is the snapshot compared with; its zero value stands for none.
type Parent struct {
	ID    format.ID
	Tree  format.ID
	Start tree.Time // when that backup began: what changed at or after this moment is read again
	// Damaged: its trees cannot all be read. What cannot be is read again from the source; without this word, it ends
	// the run.
	Damaged bool
}

// Result is what a run found; the snapshot itself is the caller's to write.
type Result struct {
	Tree   format.ID
	Users  map[uint32]string // names of those that own something
	Groups map[uint32]string
	Files  uint64 // objects in the tree
	Failed bool   // at least one object could not be looked at or read
}

// Deps are what the pipeline works with.
type Deps struct {
	Repo    *repo.Repository
	Session *repo.Session
	Ledger  *report.Ledger
	Memory  *recall.Memory // of directories
	Now     func() time.Time
}

// Run walks the sources, stores what the repository lacks, and returns the tree of the whole. The session is left
// flushed of everything this run added.
func Run(ctx context.Context, deps Deps, src Source, par Parallel, parent Parent) (*Result, error) {
	p, err := newPipeline(deps, src, par, parent)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	if p.root == nil || p.root.tree.IsZero() {
		return nil, errors.New("finish root directory: the walk ended without it")
	}
	if p.found.Load() == 0 {
		return nil, ErrNothing
	}
	return p.result(), nil
}

// shape digests the options that shape a tree.
func (s *Source) shape() signature.Signature {
	return signature.Shape(uint8(s.Reading.Serialization), s.Reading.AccessTime, s.Comparing.IgnoreInode, s.Comparing.IgnoreCtime)
}

type pipeline struct {
	Deps
	src     Source
	par     Parallel
	parent  Parent
	signers sync.Pool // of *signature.Signer
	jobs    sync.Pool // of *job

	chunker *chunker.Chunker
	batches chan *batch
	pieces  chan *piece
	readers crew.Crew
	workers crew.Crew
	buffers *crew.Buffers
	opens   *crew.Allowance // files that readers have open beside the first one each
	asides  *crew.Buffers   // one for each reader, for what it reads while a gate bounds it
	makers  *makers
	links   links
	owners  owners.Set
	root    *job
	ctx     context.Context // of the run: what several wait for does not end with one of them
	found   atomic.Int64    // sources that exist
	work    atomic.Int64    // that the workers have done, as tune.Sample counts it
}

// The units of the pipeline. A frame is about a mebibyte, so is a piece.
const (
	pieceSize = 1 << 20
	// smallFile is the largest file that travels in a batch with others. Larger ones are read piece by piece.
	smallFile = 256 << 10
	// minBounded is the least that is read at once of a large file while a gate bounds what is read.
	minBounded = 64 << 10
	// batchFiles bounds a batch of tiny files, so that a directory of a million of them is spread over the readers.
	batchFiles = 512

	// Descriptors: each reader has a file, a ring and a directory open, that twice, and up to two more directories wait for
	// it. Beside the readers there are scanners, the store and the cache.
	readerOpens = 7
	otherOpens  = 64
)

func newPipeline(deps Deps, src Source, par Parallel, parent Parent) (*pipeline, error) {
	par.Scanners, par.Readers, par.Workers = max(1, par.Scanners), par.Readers.Bounded(), par.Workers.Bounded()
	par.Readers = par.Readers.AtMost(max(1, (localfs.Descriptors()-otherOpens)/readerOpens))
	cfg := deps.Repo.Config().Chunker
	cutter, err := chunker.New(deps.Repo.Keys().ChunkerKey(), chunker.Params{Min: cfg.Min, Avg: cfg.Avg, Max: cfg.Max})
	if err != nil {
		return nil, fmt.Errorf("prepare chunker: %w", err)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if par.Processors <= 0 {
		par.Processors = processors.Allowed()
	}
	p := &pipeline{
		Deps: deps, src: src, par: par, parent: parent, chunker: cutter,
		batches: make(chan *batch, 2*par.Readers.Most),
		pieces:  make(chan *piece, par.Workers.Most),
	}
	size := pieceSize + smallFile + cutter.Max()
	count := 2*par.Readers.Most + 2*par.Workers.Most
	if par.Memory > 0 {
		count = min(count, int(par.Memory)/size)
	}
	p.buffers = crew.NewBuffers(max(2, count), size)
	p.opens = crew.NewAllowance(max(0, localfs.Descriptors()-otherOpens-readerOpens*par.Readers.Most))
	p.asides = crew.NewBuffers(par.Readers.Most, smallFile+1)
	p.makers = newMakers(p)
	shape := src.shape()
	p.signers.New = func() any { return signature.NewSigner(shape) }
	return p, nil
}

func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	p.ctx = ctx
	readers, rctx := errgroup.WithContext(ctx)
	p.readers.Start = func() { readers.Go(func() error { return p.read(rctx) }) }
	p.workers.Start = func() { group.Go(func() error { return p.process(ctx) }) }
	p.readers.Set(p.par.Readers.Start)
	p.workers.Set(p.par.Workers.Start)
	watched, enough := context.WithCancel(ctx)
	group.Go(func() error {
		defer close(p.pieces)
		defer p.workers.Seal()
		defer enough()
		defer p.readers.Seal()
		return readers.Wait()
	})
	group.Go(func() error {
		defer close(p.batches)
		defer p.readers.Seal()
		return p.walk(ctx)
	})
	group.Go(func() error {
		tune.Follow(watched, p.tuner(), driven{p})
		return nil
	})
	if err := group.Wait(); err != nil {
		p.abandon()
		return err
	}
	return p.makers.flush()
}

func (p *pipeline) walk(ctx context.Context) error {
	opt := scan.Options{
		Workers: p.par.Scanners, Rules: p.src.Rules, Skip: p.src.Skip, Ledger: p.Ledger, Now: p.Now,
		Gate: p.src.Gate,
	}
	v := &visitor{p}
	if p.Memory.HoldsNames() && !p.src.Comparing.Relist && !p.src.Comparing.IgnoreCtime {
		opt.Memory = v
	}
	if err := scan.Walk(ctx, p.src.Root, opt, v); err != nil {
		return err
	}
	p.Ledger.Scanned()
	return nil
}

// abandon gives back what is still queued after a failure.
func (p *pipeline) abandon() {
	for b := range p.batches {
		b.dir.Release()
	}
}

func (p *pipeline) result() *Result {
	users, groups := p.owners.Names()
	totals := p.Ledger.Snapshot()
	return &Result{
		Tree: p.root.tree, Users: users, Groups: groups, Files: totals.Objects.Inspected, Failed: totals.Failures > 0,
	}
}

// writer returns a frame writer for file data.
func (p *pipeline) writer() *repo.FrameWriter { return p.Session.Writer(pack.Data) }
