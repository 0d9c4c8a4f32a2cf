// Package check verifies that a repository is intact. It checks the structure: every snapshot decodes, and every blob
// that it needs is in a pack that exists. On request it reads the data back and compares each blob with its ID.
// WithoutKey compares stored files with their names, which needs no key.
//
// A check reads everything from the target: the blob index goes into a temporary file, and the local cache is not used.
// Packs that a mark names as damaged and that a snapshot relies on are always read, so damage is reported until it is
// healed or no snapshot needs it. The check repairs nothing. With Options.Record it puts a mark that names the damaged
// packs, so that the next backup of any machine stores their needed blobs again.
//
//	snapshots ─► index segments ─► packs and their tables ─► closure of snapshots ─► data ─► paths that need lost data
//
// This is the reverse of the order in which a writer stores, so a concurrent backup does no harm: what a listed
// snapshot needs was stored before the packs were listed.
package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// defaultParallel hides the delay of a remote store without filling a disk's queue.
const defaultParallel = 4

// passes is the maximum number of passes. A check starts again if a prune removed index segments during it, or if a
// pack that seemed damaged is intact when it is read over another connection.
const passes = 3

// Options configure a check. The zero value checks the structure of all snapshots.
type Options struct {
	ReadData bool   // also read the data of packs; without it, only of marked packs that snapshots rely on
	Subset   Subset // the packs whose data is read
	Proofs   string // folder of the record of verified packs; empty: none is kept
	Parallel int    // packs and directories processed together; 0: 4
	Record   string // mark damaged packs, in the name of this machine; empty: write nothing
	Scratch  string // folder for the temporary index, about 110 bytes for each blob; empty, or full: the system's
	Lagging  bool   // the target may list files late, so that a running prune could be missed: no mark is removed
}

// Run checks a repository and counts its progress in l, where each object is a stored file or a directory. An error
// means that the check could not be completed. The Result has the findings, also beside an error.
//
// In memory are a list of all packs, a bit for each blob and a tenth of a byte that leads to its place, and a few
// frames for each of the parallel workers. The queue is about as long as the directories on one path have entries.
func Run(ctx context.Context, r *repo.Repository, opt Options, l *report.Ledger) (*Result, error) {
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	full := ""
	whole := make(map[format.ID]bool)
	for pass := 1; ; pass++ {
		c := newChecker(r.Store(), r.Keys(), opt, l)
		c.whole = whole
		if full != "" {
			c.found.Note("%s has no space for the temporary index, which is in the folder for temporary files instead", full)
		}
		again, err := c.pass(ctx, r, pass == passes)
		c.clock.Stop()
		switch {
		case errors.Is(err, syscall.ENOSPC) && opt.Scratch != "": // nothing else is written
			c.found.Withdraw()
			full, opt.Scratch = opt.Scratch, ""
			pass--
		case errors.Is(err, syscall.ENOSPC):
			return c.found.Result(), fmt.Errorf("check: %w: let --cache-dir or TMPDIR name a folder with more space for the "+
				"temporary index", err)
		case err != nil:
			return c.found.Result(), fmt.Errorf("check: %w", err)
		case again:
			c.found.Withdraw()
		default:
			l.Phase(report.Done)
			return c.found.Result(), nil
		}
	}
}

// checker is one check under way.
type checker struct {
	r     *repo.Repository
	st    store.Store
	keys  *seal.Keys
	opt   Options
	l     *report.Ledger
	clock *report.Clock // of the goroutine that runs the check; Idle while others work for it
	found *findings

	index  *blobindex.Temporary // of blobs, filled from the segments and packs on the target
	frames *repo.Recent[treecache.Key, openFrame]

	mu     sync.Mutex
	others map[format.ID]bool // packs with what snapshots need of damaged packs
	strays int                // needed blobs in packs that no segment names
	stray  format.ID          // the first of these packs
	gone   []*packFile        // that did not exist when they were read

	listed    []repo.Listed // all snapshots
	snapshots []repo.Listed // those that are followed
	packs     packSet
	proven    *proofs.Record     // nil: no record is kept
	saved     time.Time          // when it was written last
	marked    map[format.ID]bool // packs that a mark says are missing or damaged
	doomed    map[format.ID]bool // packs that a prune is about to remove
	whole     map[format.ID]bool // packs that seemed damaged in an earlier pass, and are not; nil: none
	segments  []object.Info
	indexed   []format.ID // all segments, when they were listed
}

func newChecker(st store.Store, keys *seal.Keys, opt Options, l *report.Ledger) *checker {
	c := &checker{
		st: st, keys: keys, opt: opt, l: l, found: newFindings(l), clock: l.Worker("checker"),
		frames: repo.NewRecent[treecache.Key](framesKept, func(f openFrame) int { return len(f.raw) }),
		others: make(map[format.ID]bool),
	}
	c.clock.Enter(report.Unpack) // the store counts the time of its reads itself
	return c
}

// start runs do in g, with a worker clock of its own.
func (c *checker) start(ctx context.Context, g *errgroup.Group, do func(context.Context) error) {
	defer c.clock.Enter(c.clock.Enter(report.Idle)) // while g is full
	g.Go(func() error {
		clock := c.l.Worker("checker")
		defer clock.Stop()
		clock.Enter(report.Unpack)
		return do(clock.Within(ctx))
	})
}

// wait waits for the goroutines of g.
func (c *checker) wait(g *errgroup.Group) error {
	defer c.clock.Enter(c.clock.Enter(report.Idle))
	return g.Wait()
}

// pass checks everything. It returns again if what it found may be no damage, because a concurrent prune moved packs;
// the last pass continues all the same. Data is read after that.
func (c *checker) pass(ctx context.Context, r *repo.Repository, last bool) (again bool, err error) {
	c.r = r
	if c.index, err = r.Index().OpenTemporary(c.opt.Scratch); err != nil {
		return false, err
	}
	defer func() {
		if closeErr := c.index.Close(); err == nil {
			err = closeErr
		}
	}()
	ctx = c.clock.Within(ctx)
	c.l.Phase(report.Checking)
	for _, step := range []func(context.Context) error{
		c.checkSnapshots, c.checkSmallFiles, c.listIndex, c.listPacks, c.checkIndex, c.checkStrays,
		c.checkMissing,
	} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	c.clock.Enter(report.Idle)
	if err := c.follow(ctx); err != nil {
		return false, err
	}
	c.clock.Enter(report.Unpack)
	if err := c.noteDoubles(ctx); err != nil {
		return false, err
	}
	if c.found.Any() {
		switch moved, err := c.pruned(ctx); {
		case err != nil || moved && !last:
			return moved, err
		case moved:
			c.found.Note("packs were moved and removed during every pass of this check; check again when no prune is running")
		}
		if mistaken, err := c.mistaken(ctx, last); mistaken || err != nil {
			return mistaken, err
		}
	}
	if c.opt.ReadData || len(c.found.Relied()) > 0 {
		c.l.Phase(report.Verifying)
		if err := c.readData(ctx); err != nil {
			return false, err
		}
	}
	if err := c.attribute(ctx); err != nil {
		return false, err
	}
	c.noteOthers()
	if err := c.retract(ctx); err != nil {
		return false, err
	}
	c.found.Unneeded(!c.found.Has(Snapshot))
	c.remember()
	return false, c.record(ctx)
}

// remember records on this machine how much is damaged, so that it can be shown without opening the repository.
func (c *checker) remember() {
	if c.opt.Proofs == "" {
		return
	}
	res := c.found.Result()
	damage := proofs.Damage{At: time.Now(), Problems: uint64(len(res.Problems)) + res.More}
	if err := proofs.WriteDamage(c.opt.Proofs, damage); err != nil {
		c.found.Note("the number of problems is not recorded: %v", err)
	}
}

// record marks the damaged packs. A failure is only a note, because the target may be read-only.
func (c *checker) record(ctx context.Context) error {
	files, nowhere := c.found.Damaged()
	if c.opt.Record == "" || len(files) == 0 && !nowhere {
		return nil
	}
	n, err := c.r.RecordDamage(ctx, c.opt.Record, files)
	switch {
	case err != nil && fatal(ctx, err):
		return err
	case err != nil:
		c.found.Note("the damage could not be recorded, so that only 'tidemark backup --force' repairs it: %v", err)
	default:
		c.found.Note("files that were marked as damaged: %d; the next backup stores again what it needs of them", n)
	}
	return nil
}
