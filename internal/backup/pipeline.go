// Package backup makes snapshots. The flow, with the package of each stage below it:
//
//	            Directory             Portion          Piece              chunks
//	scan.Walk ───────────► visitor ─────────► readers ─────────► workers ───────► repo.Session
//	backup/scan        backup/compare       backup/read        backup/save       frames, packs
//	names, status      states of entries,   open, read,        cut, hash,
//	                   entries to read      changes, links     deduplicate
//
//	Each directory is a dirWork (dirwork.go). The last of its portions and subdirectories to end finishes it:
//	finish.go   compare.Finish ─┬─► unchanged: the tree it had ────┐
//	                            └─► save.Tree: nodes ► tree pages ─┴─► tree ID ► the parent ► … ► root ► snapshot
//
// The stages do not call one another. This package hands their results on: visitor.go from scan to compare and read,
// process.go from read to save, finish.go from all of them to save. compare and read work on scan.Directory and
// scan.Entry.
//
// A unit of work is a directory, a portion of small files, or about a mebibyte of a large one, never one small file.
// Each stage waits only for the ones after it: a worker for the session, a reader for a buffer, the walk for room in
// the channel of portions. So the waits form no circle.
package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/save"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/tune"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// deps are what the pipeline works with.
type deps struct {
	repo      *repo.Repository
	session   *repo.Session
	ledger    *report.Ledger
	cache     *compare.Cache // of directories
	load      tree.Load      // also what the parents need
	sources   []string       // absolute paths
	differing differing
	partial   *checkpoints // nil: none
	growth    *growth      // nil: where new data lies does not matter
}

// result is what a run found; the caller writes the snapshot.
type result struct {
	tree   format.ID
	users  map[uint32]string // names of the owners of objects
	groups map[uint32]string
	mended uint64   // unchanged files that were read because parts of them are lost
	found  []*place // of each source; nil: not looked for
}

// pipeline is one run.
type pipeline struct {
	deps   deps
	src    Source
	par    Parallel
	parent Parent

	compare *compare.Comparer
	read    *read.Stage
	save    *save.Saver

	portions chan *read.Portion
	queueing sync.Mutex // while the portions of one directory are sent
	pieces   chan *read.Piece
	readers  pool
	workers  pool
	memory   read.Memory
	idle     sync.Pool // of *dirWork
	owners   owners
	root     *dirWork
	mu       sync.Mutex   // guards top, and dirWork.stored and children of a run with checkpoints
	top      *dirWork     // the root while it is in work
	places   *place       // of the root
	found    []*place     // of each source
	sources  atomic.Int64 // that exist
	work     atomic.Int64 // done by the workers, as tune.Sample counts it
}

const (
	// readerOpens is how many descriptors a reader needs: a file, a ring and a directory, that twice while it hands over,
	// and up to two directories of portions that wait for it.
	readerOpens = 7
	// otherOpens is how many descriptors are left to the scanners, the store and the cache.
	otherOpens = 64
)

// run walks the sources, stores what the repository lacks, and returns the tree of the whole. The session is left
// flushed of everything this run added.
func run(ctx context.Context, d deps, src Source, par Parallel, parent Parent) (*result, error) {
	p, err := newPipeline(d, src, par, parent)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	if p.root == nil || p.root.tree.IsZero() {
		return nil, errors.New("finish root directory: the walk ended without it")
	}
	if p.sources.Load() == 0 {
		return nil, ErrNothing
	}
	p.noteDataless()
	return p.result(), nil
}

// noteDataless reports how much of the sources is not on this machine.
func (p *pipeline) noteDataless() {
	if kept, left := p.compare.Dataless(); kept+left > 0 {
		p.deps.ledger.Note("", "read", fmt.Errorf("files and folders with content only in the cloud: %d; nothing was "+
			"fetched. %d keep what the snapshot before has; %d are not in this snapshot", kept+left, kept, left))
	}
}

func newPipeline(d deps, src Source, par Parallel, parent Parent) (*pipeline, error) {
	par.Scanners, par.Readers, par.Compressors = max(1, par.Scanners), par.Readers.bounded(), par.Compressors.bounded()
	par.Readers = par.Readers.atMost(max(1, (localfs.MaxOpenFiles()-otherOpens)/readerOpens))
	cfg, keys := d.repo.Config().Chunker, d.repo.Keys()
	cutter, err := chunker.New(keys.ChunkerKey(), chunker.Params{Min: cfg.Min, Avg: cfg.Avg, Max: cfg.Max})
	if err != nil {
		return nil, fmt.Errorf("prepare chunker: %w", err)
	}
	if par.Processors <= 0 {
		par.Processors = sysinfo.AllowedCPUs()
	}
	p := &pipeline{
		deps: d, src: src, par: par, parent: parent,
		portions: make(chan *read.Portion, 2*par.Readers.Most),
		pieces:   make(chan *read.Piece, par.Compressors.Most),
	}
	size := read.PieceSize + read.SmallFile + cutter.Max()
	count := 2*par.Readers.Most + 2*par.Compressors.Most
	if par.Memory > 0 {
		count = min(count, int(par.Memory)/size)
	}
	p.memory = read.Memory{
		Buffers: read.NewBuffers(max(2, count), size),
		Scratch: read.NewBuffers(par.Readers.Most, read.SmallFile+1),
		Open:    semaphore.NewWeighted(max(0, int64(localfs.MaxOpenFiles()-otherOpens-readerOpens*par.Readers.Most))),
	}
	p.places, p.found = places(src.Root, d.sources)
	p.places.differ = true // the root has no node to compare
	p.save = save.New(save.Config{Session: d.session, Keys: keys, Ledger: d.ledger, Cutter: cutter,
		ZerosAreHoles: src.ZerosAreHoles || !localfs.HolesAreTrue})
	p.read = read.New(read.Config{
		Options: src.Reading, Rotational: src.Rotational, Ledger: d.ledger, Cutter: cutter, Flow: p, Memory: p.memory,
	})
	return p, nil
}

func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	p.compare = compare.New(ctx, compare.Config{
		Options: p.src.Comparing, AccessTime: p.src.Reading.AccessTime, Digest: p.src.digest(), Parent: p.parent,
		Stores: compare.Stores{Cache: p.deps.cache, Session: p.deps.session, Load: p.deps.load},
		Ledger: p.deps.ledger, Forced: p.deps.differing.in,
	})
	readers, rctx := errgroup.WithContext(ctx)
	p.readers.start = func() { readers.Go(func() error { return p.reader(rctx) }) }
	p.workers.start = func() { group.Go(func() error { return p.worker(ctx) }) }
	p.readers.Resize(p.par.Readers.Start)
	p.workers.Resize(p.par.Compressors.Start)
	watched, enough := context.WithCancel(ctx)
	group.Go(func() error {
		defer close(p.pieces)
		defer p.workers.Close()
		defer enough()
		defer p.readers.Close()
		return readers.Wait()
	})
	scanning, scanned := context.WithCancel(ctx)
	defer scanned()
	group.Go(func() error {
		defer close(p.portions)
		defer p.readers.Close()
		defer scanned()
		return p.walk(ctx)
	})
	if p.deps.ledger.Snapshot().Expected == (report.Expected{}) {
		group.Go(func() error {
			p.count(scanning)
			return nil
		})
	}
	if p.partial() {
		group.Go(func() error { return p.deps.partial.publish(ctx, watched.Done(), p) })
	}
	group.Go(func() error {
		tune.Follow(watched, p.tuner(), &tunable{flow: p})
		return nil
	})
	if err := group.Wait(); err != nil {
		for b := range p.portions { // queued, and not read
			b.Release()
		}
		return err
	}
	return p.save.Flush()
}

func (p *pipeline) walk(ctx context.Context) error {
	opt := p.src.scan(p.par.Scanners, p.deps.ledger)
	if p.deps.cache.KeepsNames() && !p.src.Comparing.Relist && !p.src.Comparing.IgnoreCtime {
		opt.Cache = p
	}
	if err := scan.Walk(ctx, p.src.Root, opt, p); err != nil {
		return err
	}
	p.deps.ledger.Scanned()
	return nil
}

// reader is one goroutine of the read stage.
func (p *pipeline) reader(ctx context.Context) (err error) {
	clock := p.deps.ledger.Worker("reader")
	r := p.read.NewReader(clock)
	defer func() { err = errors.Join(err, r.Close()) }()
	defer clock.Stop()
	clock.Enter(report.WaitScan)
	return receive(p.portions, &p.readers, never, func(b *read.Portion) error {
		defer clock.Enter(report.WaitScan)
		return r.Read(ctx, b)
	})
}

// Queue hands a portion to the readers.
func (p *pipeline) Queue(ctx context.Context, b *read.Portion) error { return send(ctx, p.portions, b) }

// Send hands a piece to the workers.
func (p *pipeline) Send(ctx context.Context, piece *read.Piece) error {
	return send(ctx, p.pieces, piece)
}

// NewChunks returns where the chunks of a large file are collected.
func (p *pipeline) NewChunks() read.Chunks { return p.save.NewChunks() }

func (p *pipeline) result() *result {
	users, groups := p.owners.names()
	return &result{
		mended: p.compare.Mended(),
		tree:   p.root.tree, users: users, groups: groups, found: p.found,
	}
}
