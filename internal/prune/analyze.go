package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/tally"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Question is what an Analyze counts: the data that some snapshots need, without the data that others need too.
type Question struct {
	Of       []format.ID
	Besides  []format.ID // the others; those of them that are in Of count there
	Excluded *rules.Set  // if it is not nil: only data that nothing but the files and folders it excludes needs
	Rows     int         // a file or folder has a row if it has one part in Rows of the sum
}

// Analysis is the answer. The bytes of the rows are Stored of the sum.
type Analysis struct {
	Usage
	Rows []tally.Row
}

// Analyze says which files and folders need how much of what is stored. Each blob counts once, for the path that comes
// first in the last of the snapshots: files of a folder before its subfolders, those in the order of their names. The
// pages of a folder count for the folder. In memory are two bits and four bytes for each blob of the repository, and
// what a tally.Tally keeps; with Excluded, also some 40 bytes for each different folder.
func Analyze(ctx context.Context, r *repo.Repository, opt Options, q Question) (_ *Analysis, err error) {
	opt.complete()
	v, err := openUsage(ctx, r, opt, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	of, err := v.named(q.Of)
	if err != nil {
		return nil, err
	}
	besides, err := v.named(q.Besides)
	if err != nil {
		return nil, err
	}
	besides = slices.DeleteFunc(besides, func(l repo.Listed) bool { return slices.Contains(q.Of, l.ID) })
	v.following()
	if err := v.follow(ctx, besides, opt.Parallel); err != nil {
		return nil, err
	}
	if q.Excluded != nil {
		if err := newAttribution(v.places).snapshots(ctx, of, q.Excluded); err != nil {
			return nil, err
		}
	}
	w := newAttribution(v.places)
	w.out = true
	if err := w.snapshots(ctx, of, q.Excluded); err != nil {
		return nil, err
	}
	return &Analysis{w.sum, w.tally.Rows(q.Rows)}, nil
}

// openUsage lists snapshots and opens the index, to find out what snapshots need; sized: with the share of each blob.
func openUsage(ctx context.Context, r *repo.Repository, opt Options, sized bool) (*survey, error) {
	doomed, err := marks.All(ctx, r.Store(), r.Keys())
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	v := &survey{}
	if v.listed, err = r.Snapshots(ctx); err != nil {
		return nil, err
	}
	v.places, err = openPlaces(ctx, r, segmentReader(r), opt.Ledger, opt.Scratch, marks.UnusableBy(doomed), sized)
	return v, indexError(err)
}

// named returns the snapshots with these IDs, each once, from the oldest.
func (v *survey) named(ids []format.ID) (list []repo.Listed, err error) {
	for _, l := range v.listed {
		if slices.Contains(ids, l.ID) {
			list = append(list, l)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(list, func(l repo.Listed) bool { return l.ID == id }) {
			return nil, fmt.Errorf("snapshot %s: %w", id.Short(), repo.ErrNoSnapshot)
		}
	}
	return list, nil
}

// following begins a step in which trees are read.
func (v *survey) following() {
	v.step = v.ledger.Step(report.Following, report.Course{Unit: "folders", Units: v.pages, Bytes: v.pageBytes})
}
