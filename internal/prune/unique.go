package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Usage is what only one snapshot needs.
type Usage struct {
	Blobs  uint64
	Raw    uint64 // bytes of the blobs, before compression
	Stored uint64 // their share of the sealed frames that hold them, in bytes
}

// Unique returns for each of the snapshots ids what no other snapshot of the repository needs: a forget of that one
// snapshot and a prune that leaves nothing unused free the stored bytes, and with them the tables of packs that become
// empty. It follows all other snapshots once, and the named ones twice if there are several. In memory are three bits
// for each blob of the repository.
func Unique(ctx context.Context, r *repo.Repository, opt Options, ids []format.ID) (_ []Usage, err error) {
	if opt.Ledger == nil {
		opt.Ledger = report.NewJob(report.Prune, time.Now)
	}
	doomed, err := marks.All(ctx, r.Store(), r.Keys())
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	listed, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	p, err := openPlaces(ctx, newSegmentReader(r), opt.Ledger, opt.Scratch, marks.UnusableBy(doomed))
	if err != nil {
		return nil, indexError(err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	u := &unique{places: p, parallel: opt.Parallel}
	if u.parallel == 0 {
		u.parallel = defaultParallel
	}
	var others, named []repo.Listed
	for _, l := range listed {
		if slices.Contains(ids, l.ID) {
			named = append(named, l)
		} else {
			others = append(others, l)
		}
	}
	return u.run(ctx, ids, others, named)
}

// unique finds the blobs that one snapshot alone needs.
type unique struct {
	*places
	parallel int
}

// blobs returns the blobs that snapshots need.
func (u *unique) blobs(ctx context.Context, of ...repo.Listed) (reach.Bitset, error) {
	u.used = reach.NewBitset(u.index.Blobs())
	u.step = u.ledger.Step(report.Following, report.Course{Unit: "folders", Units: u.pages, Bytes: u.pageBytes})
	err := u.follow(ctx, of, u.parallel)
	return u.used, err
}

func (u *unique) run(ctx context.Context, ids []format.ID, others, named []repo.Listed) ([]Usage, error) {
	shared, err := u.blobs(ctx, others...)
	if err != nil {
		return nil, err
	}
	once := reach.NewBitset(u.index.Blobs()) // what at least one of the named ones needs
	var own reach.Bitset
	for _, l := range named {
		if own, err = u.blobs(ctx, l); err != nil {
			return nil, err
		}
		for i := range own {
			shared[i].Or(once[i].Load() & own[i].Load())
			once[i].Or(own[i].Load())
		}
	}
	found := map[format.ID]Usage{}
	for _, l := range named {
		if len(named) > 1 {
			if own, err = u.blobs(ctx, l); err != nil {
				return nil, err
			}
		}
		for i := range own {
			own[i].And(^shared[i].Load())
		}
		if found[l.ID], err = u.sum(ctx, own); err != nil {
			return nil, err
		}
	}
	all := make([]Usage, len(ids))
	for i, id := range ids {
		one, ok := found[id]
		if !ok {
			return nil, fmt.Errorf("snapshot %s: %w", id.Short(), repo.ErrNoSnapshot)
		}
		all[i] = one
	}
	return all, nil
}

// sum adds up blobs. A frame that holds others too counts in proportion.
func (u *unique) sum(ctx context.Context, blobs reach.Bitset) (s Usage, err error) {
	stored := 0.0
	v := &survey{places: u.places}
	err = v.tables(ctx, report.Planning, func(i int, t *pack.Table) error {
		n := v.packs[i].base
		for j := range t.Frames {
			f := &t.Frames[j]
			own, all := uint64(0), uint64(0)
			for _, b := range f.Blobs {
				if all += uint64(b.Len); blobs.Has(n) {
					own += uint64(b.Len)
					s.Blobs++
				}
				n++
			}
			if s.Raw += own; all > 0 {
				stored += float64(f.Sealed) * float64(own) / float64(all)
			}
		}
		return nil
	})
	s.Stored = uint64(stored + 0.5)
	return s, err
}
