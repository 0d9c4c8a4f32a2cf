package prune

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// follow marks the blobs that the snapshots need. A blob that is missing, or a page that cannot be read, ends the
// prune.
func (p *places) follow(ctx context.Context, listed []repo.Listed, parallel int) error {
	roots := make([]format.ID, len(listed))
	for i := range listed {
		if listed[i].Err != nil {
			return fmt.Errorf("snapshot %s: %w: %w", listed[i].ID.Short(), ErrDamaged, listed[i].Err)
		}
		roots[i] = listed[i].Snapshot.Tree
	}
	w := reach.Walk{
		Index: p.index, Workers: parallel, Role: "follower", Ledger: p.ledger,
		Visitor: func() reach.Visitor { return visitor{p} },
	}
	return w.Run(ctx, roots)
}

// carriedAtOnce is how many blobs carry looks up together.
const carriedAtOnce = 16 << 10

// carry marks the blobs that an earlier survey has reached, where they count now. It reports whether all of them have a
// place. Both indexes are sorted, so this reads each from front to back.
func (p *places) carry(before *places) (all bool, err error) {
	left := uint64(0)
	for i := range before.packs {
		left += uint64(before.packs[i].live)
	}
	all = true
	var found []index.Place
	ids := make([]format.ID, 0, carriedAtOnce)
	lookUp := func() error {
		var err error
		found, err = p.index.Locate(found, ids)
		for i := range found {
			if found[i].Lost() {
				all = false
			} else {
				p.used.Add(found[i].Number())
			}
		}
		left -= uint64(len(ids))
		ids = ids[:0]
		return err
	}
	err = before.index.Each(func(id format.ID, number uint64) error {
		if !before.used.Has(number) {
			return nil
		}
		if ids = append(ids, id); len(ids) < carriedAtOnce {
			return nil
		}
		return lookUp()
	})
	if err == nil {
		err = lookUp()
	}
	return all && left == 0, err
}

// visitor marks the blobs that a worker of the walk reaches.
type visitor struct{ *places }

// Queued and Intact do nothing: the progress of a prune counts pages.
func (v visitor) Queued(int) {}

func (v visitor) Intact() {}

// Load reads a page, and marks it as needed.
func (v visitor) Load(ctx context.Context, id format.ID, at *index.Place) ([]byte, error) {
	if err := v.need(id, at); err != nil {
		return nil, err
	}
	in, err := v.index.Found(at)
	if err != nil {
		return nil, err
	}
	p, err := v.r.LoadBlobAt(ctx, id, in)
	if object.IsDamage(err) {
		p, err = v.r.LoadBlobAt(store.SecondLook(ctx), id, in)
	}
	if err != nil && (object.IsDamage(err) || errors.Is(err, store.ErrNotExist)) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	v.step.Did(1, uint64(len(p)))
	return p, err
}

// Chunks marks chunks as needed.
func (v visitor) Chunks(chunks []tree.Chunk, places []index.Place) error {
	for i := range places {
		if err := v.need(chunks[i].ID, &places[i]); err != nil {
			return err
		}
	}
	return nil
}

func (v visitor) need(id format.ID, at *index.Place) error {
	if at.Lost() {
		return fmt.Errorf("blob %s is in no pack: %w", id, ErrDamaged)
	}
	v.used.Add(at.Number())
	return nil
}

// Damaged ends the prune. A file whose size is wrong does not: the blobs that the snapshot needs of it are known.
func (v visitor) Damaged(_ context.Context, _ format.ID, err error) error {
	switch {
	case errors.Is(err, reach.ErrSize):
		return nil
	case !errors.Is(err, ErrDamaged) && (errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupported)):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
