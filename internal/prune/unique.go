package prune

import (
	"context"
	"errors"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Usage is what only some snapshots need.
type Usage struct {
	Blobs  uint64
	Raw    uint64 // bytes of the blobs, before compression
	Stored uint64 // their share of the sealed frames that hold them, in bytes
}

// Unique returns what the snapshots ids need and no other snapshot of the repository does: a forget of them and a
// prune that leaves nothing unused free the stored bytes, and with them the tables of packs that become empty. It
// follows each snapshot once. In memory are two bits for each blob of the repository.
func Unique(ctx context.Context, r *repo.Repository, opt Options, ids []format.ID) (_ Usage, err error) {
	opt.complete()
	v, err := openUsage(ctx, r, opt, false)
	if err != nil {
		return Usage{}, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	named, err := v.named(ids)
	if err != nil {
		return Usage{}, err
	}
	others := slices.DeleteFunc(slices.Clone(v.listed), func(l repo.Listed) bool { return slices.Contains(ids, l.ID) })
	shared, err := v.blobs(ctx, others, opt.Parallel)
	if err != nil {
		return Usage{}, err
	}
	own, err := v.blobs(ctx, named, opt.Parallel)
	if err != nil {
		return Usage{}, err
	}
	for i := range own {
		own[i].And(^shared[i].Load())
	}
	return v.sum(ctx, own)
}

// blobs returns the blobs that snapshots need.
func (v *survey) blobs(ctx context.Context, of []repo.Listed, parallel int) (reach.Bitset, error) {
	v.used = reach.NewBitset(v.index.Blobs())
	v.following()
	err := v.follow(ctx, of, parallel)
	return v.used, err
}

// sum adds up blobs. A frame that holds others too counts in proportion.
func (v *survey) sum(ctx context.Context, blobs reach.Bitset) (s Usage, err error) {
	stored := 0.0
	err = v.tables(ctx, report.Planning, func(at *packState, t *pack.Table) error {
		own, sealed := usageOf(blobs, at, t)
		s.Blobs, s.Raw, stored = s.Blobs+own.Blobs, s.Raw+own.Raw, stored+sealed
		return nil
	})
	s.Stored = uint64(stored + 0.5)
	return s, err
}
