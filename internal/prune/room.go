package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Run prunes a repository. Beside an error, the Result covers the work before it.
//
// Packs are repacked before anything is removed, because then one survey serves for both. If space runs out, prune
// first deletes unused packs, then repacks in small rounds.
func Run(ctx context.Context, r *repo.Repository, opt Options) (*Result, error) {
	opt.complete()
	if opt.Settle == Unbounded && !opt.DryRun {
		return &Result{}, fmt.Errorf("prune: %w", ErrLagging)
	}
	if opt.Settle != Exclusive && !opt.DryRun {
		if err := probe(ctx, r.Store()); err != nil {
			return &Result{}, fmt.Errorf("prune: %w", err)
		}
	}
	res, err := withRoom(ctx, r, opt)
	if err != nil {
		return res, fmt.Errorf("prune: %w", err)
	}
	opt.Ledger.Phase(report.Done)
	return res, nil
}

// Forecast returns what a prune would do if some snapshots were forgotten. It changes nothing.
func Forecast(ctx context.Context, r *repo.Repository, opt Options, without []format.ID) (*Result, error) {
	opt.DryRun = true
	opt.complete()
	res, _, err := once(ctx, r, opt, &round{index: opt.Scratch, without: without})
	if err != nil {
		return res, fmt.Errorf("plan a prune: %w", err)
	}
	opt.Ledger.Phase(report.Done)
	return res, nil
}

// complete sets what may be left out.
func (o *Options) complete() {
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Ledger == nil {
		o.Ledger = report.NewJob(report.Prune, time.Now)
	}
}

// On a full disk, packs are repacked in rounds of mostInRound to leastInRound bytes. Each round removes the packs that
// it has emptied, so the next one has more space.
const (
	mostInRound  = 8 << 20
	leastInRound = 64 << 10
)

func withRoom(ctx context.Context, r *repo.Repository, opt Options) (*Result, error) {
	ctx = store.IntoReserve(ctx)
	all := &Result{}
	in := &round{index: opt.Scratch}
	res, begun, err := once(ctx, r, opt, in)
	all.Then(res)
	switch {
	case !errors.Is(err, store.ErrNoSpace):
		return all, err
	case !begun:
		return all, noRoom("not enough space to begin: a prune writes two small files before it removes anything", err)
	}
	opt.Note("the disk is full: deleting unused packs first, then repacking in small rounds")
	return all, inRounds(ctx, r, opt, in, all, err)
}

// places opens the index. If the disk of the cache, which is often that of the repository, has no space for it beside
// that of the first survey, all snapshots are followed again. If it has none at all, the index lies in the folder for
// temporary files, or else in memory.
func (p *pruner) places(ctx context.Context, doomed map[format.ID]bool) (*places, error) {
	for {
		if p.first != nil && p.round.index == index.InMemory {
			if err := p.forgetFirst(); err != nil {
				return nil, err
			}
		}
		found, err := openPlaces(ctx, p.r, p.reader, p.opt.Ledger, p.round.index, doomed, false)
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if !full || errors.Is(err, store.ErrNoSpace) || p.round.index == index.InMemory {
			return found, err
		}
		if p.first != nil {
			if err := p.forgetFirst(); err != nil {
				return nil, err
			}
			continue
		}
		was := cmp.Or(p.round.index, os.TempDir())
		if p.round.index = os.TempDir(); was == os.TempDir() {
			p.round.index = index.InMemory
		}
		p.opt.Note(fmt.Sprintf("there is no space for the temporary index in %s: using %s", was, p.round.index))
	}
}

// inRounds removes unused packs, and then repacks in rounds; each round is a complete prune. short is the error of
// the attempt without rounds.
func inRounds(ctx context.Context, r *repo.Repository, opt Options, in *round, all *Result, short error) error {
	in.tight = true
	in.atMost = min(max(all.Written.Bytes, leastInRound), mostInRound)
	for {
		only := opt
		only.MaxUnused = Limit{None: true}
		res, _, err := once(ctx, r, only, in)
		all.Then(res)
		if errors.Is(err, store.ErrNoSpace) {
			return noRoom("not enough space for the mark that names the packs to remove, or for the index of those that stay",
				err)
		}
		if err != nil {
			return err
		}
		for err == nil {
			res, _, err = once(ctx, r, opt, in)
			all.Then(res)
			switch {
			case err == nil && (!res.Postponed || res.Freed <= 0):
				return nil
			case err == nil:
				in.atMost *= 2
			case !errors.Is(err, store.ErrNoSpace):
				return err
			}
		}
		if in.atMost /= 4; in.atMost < leastInRound {
			return &store.Problem{
				What:  "not enough space to repack packs of which only a part is needed",
				Cause: store.Brief(short), Kinds: []error{short},
				Do: "packs that are wholly unused were removed, unless other writers are running; free space and run it " +
					"again, or allow more unused space with '--max-unused'",
			}
		}
	}
}

func noRoom(what string, err error) error {
	return &store.Problem{
		What: what, Cause: store.Brief(err), Kinds: []error{err},
		Do: "remove or move a file that is not tidemark's from that disk, or enlarge it, and run 'tidemark prune " +
			"--max-unused unlimited'",
	}
}
