package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// Run prunes a repository. The Result is there also beside an error, and then says what was done before it.
//
// Packs are written anew before anything is removed, because one look at all snapshots then serves for both. Where that finds
// no room, what nothing needs at all is removed first, and the rest is tried once more.
func Run(ctx context.Context, r *repo.Repository, opt Options) (*Result, error) {
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Note == nil {
		opt.Note = func(string) {}
	}
	if opt.Ledger == nil {
		opt.Ledger = report.NewJob(report.Prune, time.Now)
	}
	res, err := withRoom(ctx, r, opt)
	if err != nil {
		return res, fmt.Errorf("prune: %w", err)
	}
	opt.Ledger.Phase(report.Done)
	return res, nil
}

func withRoom(ctx context.Context, r *repo.Repository, opt Options) (*Result, error) {
	const tries = 2
	all := &Result{}
	for try := 1; ; try++ {
		res, begun, err := once(ctx, r, opt)
		all.Then(res)
		switch {
		case !errors.Is(err, store.ErrNoSpace):
			return all, err
		case !begun:
			return all, noRoom("not enough room to begin: a prune writes some kilobytes before it removes anything", err)
		case opt.MaxUnused.None:
			return all, noRoom("not enough room for the part of the index that names what stays", err)
		}
		opt.Note("there is no room to write packs anew: removing first what nothing needs")
		only := opt
		only.MaxUnused = Limit{None: true}
		first := res.Freed // negative: what was written in vain
		res, _, failed := once(ctx, r, only)
		all.Then(res)
		switch {
		case errors.Is(failed, store.ErrNoSpace):
			return all, noRoom("not enough room to write packs anew, nor for the part of the index that names what stays", failed)
		case failed != nil:
			return all, failed
		case first+res.Freed <= 0 || try == tries:
			return all, &store.Problem{
				What:  "not enough room to write packs anew, of which only a part is needed",
				Cause: store.Brief(err), Kinds: []error{err},
				Do: "what nothing needs at all was removed, as far as nobody else is at work; make room and run it again, or allow " +
					"more to be taken in vain with '--max-unused'",
			}
		}
	}
}

func noRoom(what string, err error) error {
	return &store.Problem{
		What: what, Cause: store.Brief(err), Kinds: []error{err},
		Do: "remove or move a file that is not tidemark's from that disk, or enlarge it, and run 'tidemark prune --max-unused " +
			"unlimited'",
	}
}
