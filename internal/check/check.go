// Package check finds out whether a repository is whole. It looks at the structure (every snapshot decodes, and
// everything it needs is in a pack that is there), and on request reads the data back and compares each blob with its
// ID. WithoutKey does the part that a machine without any key can do: it compares stored files with their names.
//
// It trusts nothing but the target: the blob index is read from there into a temporary file, the local cache is not
// asked. It writes nothing to the target and repairs nothing.
//
//	snapshots ─► index segments ─► packs and their tables ─► closure of each snapshot ─► data ─► who needs what is lost
//
// This is the reverse of the order in which a writer stores, so that a backup that runs meanwhile does no harm: what a
// listed snapshot needs was there before the packs were listed.
//
// The package refuses to know how findings are shown and what to do about them beyond one sentence of advice.
package check

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/check/closure"
	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// defaultParallel hides the delay of a remote store without filling a disk's queue.
const defaultParallel = 4

// looks is how often a check looks at everything at most: where a prune came in between, it begins anew. The last look
// goes to its end, whatever comes in between.
const looks = 3

type (
	// Problem is what is found, under the name that callers use.
	Problem = finding.Problem
	// Result is everything that is found.
	Result = finding.Result
	// Kind is what a problem is about.
	Kind = finding.Kind
)

// The kinds of problems.
const (
	Config   = finding.Config
	Key      = finding.Key
	Snapshot = finding.Snapshot
	Index    = finding.Index
	Pack     = finding.Pack
	Tree     = finding.Tree
	Blob     = finding.Blob
	Mark     = finding.Mark
	Lease    = finding.Lease
)

// How much a Result names; the rest is counted.
const (
	MaxProblems = finding.MaxProblems
	MaxPaths    = finding.MaxPaths
)

// Options says what is checked. The zero value checks the structure of all snapshots.
type Options struct {
	ReadData  bool        // read the data of packs too
	Subset    Subset      // of which packs
	Snapshots []format.ID // only these; empty: all
	Parallel  int         // packs and folders looked at together; 0: 4
	Scratch   string      // folder for the temporary index, about 110 bytes for each blob; empty: the system's
}

// Run checks a repository and books its progress on l, where each object is a stored file or a folder. The error says
// that the check could not be done; what it found is in the Result, which is there also beside an error.
//
// In memory are a list of all packs, a bit for each blob and a tenth of a byte that leads to its place, and a few frames
// for each of the parallel workers. The folders that wait to be visited are about as many as lie in the folders on one path.
func Run(ctx context.Context, r *repo.Repository, opt Options, l *report.Ledger) (*Result, error) {
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	for look := 1; ; look++ {
		c := newChecker(r.Store(), r.Keys(), opt, l)
		again, err := c.look(ctx, r, look == looks)
		c.clock.Stop()
		switch {
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
	found *finding.Book
	blobs *closure.Blobs

	snapshots []repo.Listed
	packs     packSet
	segments  []store.Info
	indexed   []string // names of all segments, when they were listed
	now       nowNamed
}

func newChecker(st store.Store, keys *seal.Keys, opt Options, l *report.Ledger) *checker {
	c := &checker{st: st, keys: keys, opt: opt, l: l, found: finding.NewBook(l), clock: l.Worker("checker")}
	c.clock.Enter(report.Unpack) // getting the bytes is booked by the store
	return c
}

// start runs do in g, on the books as a worker of its own.
func (c *checker) start(ctx context.Context, g *errgroup.Group, do func(context.Context) error) {
	defer c.clock.Enter(c.clock.Enter(report.Idle)) // while g is full
	g.Go(func() error {
		clock := c.l.Worker("checker")
		defer clock.Stop()
		clock.Enter(report.Unpack)
		return do(clock.Within(ctx))
	})
}

// wait waits for what was started.
func (c *checker) wait(g *errgroup.Group) error {
	defer c.clock.Enter(c.clock.Enter(report.Idle))
	return g.Wait()
}

// look checks everything, and reports whether it found something that may be no damage, as a prune has been at work
// meanwhile; the last look goes on all the same. Data is read only after that.
func (c *checker) look(ctx context.Context, r *repo.Repository, last bool) (again bool, err error) {
	c.r = r
	if c.blobs, err = closure.NewBlobs(r, c.opt.Scratch); err != nil {
		return false, err
	}
	defer func() {
		if closeErr := c.blobs.Close(); err == nil {
			err = closeErr
		}
	}()
	ctx = c.clock.Within(ctx)
	c.l.Phase(report.Checking)
	for _, step := range []func(context.Context) error{
		c.checkSnapshots, c.checkSmallFiles, c.listIndex, c.listPacks, c.checkIndex, c.checkStrays,
	} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	needs := closure.Closure{Blobs: c.blobs, Book: c.found, Keys: c.keys, Ledger: c.l, Parallel: c.opt.Parallel}
	c.clock.Enter(report.Idle)
	if err := needs.Walk(ctx, c.snapshots); err != nil {
		return false, err
	}
	c.clock.Enter(report.Unpack)
	if c.found.Any() {
		switch moved, err := c.pruned(ctx); {
		case err != nil || moved && !last:
			return moved, err
		case moved:
			c.found.Note("packs were moved and removed whenever this check looked; check again when no prune is at work")
		}
	}
	if c.opt.ReadData {
		c.l.Phase(report.Verifying)
		if err := c.readData(ctx); err != nil {
			return false, err
		}
	}
	if err := needs.Blame(ctx, c.snapshots); err != nil {
		return false, err
	}
	c.found.Unneeded(len(c.opt.Snapshots) == 0 && !c.found.Has(Snapshot))
	return false, nil
}
