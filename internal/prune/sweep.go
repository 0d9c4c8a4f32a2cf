package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/prune/renew"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// other is a writer, under a short name.
type other = session.Other

// sweep removes the packs of ripe marks that no snapshot needs: first from the index, then the packs, then the marks. A
// crash in between leaves a mark, and the next prune goes on. Packs that a snapshot has come to need are pardoned, which
// is that their mark is removed and they are not.
func (p *pruner) sweep(ctx context.Context, v *survey) error {
	p.res.Held = 0 // what an earlier sweep of this prune held back may go now
	doomed, pardoned := v.doomed()
	for _, id := range pardoned { // those of a mark that stays are met by each sweep
		p.pardoned[id] = true
	}
	p.res.Pardoned = uint64(len(p.pardoned))
	if v.step = nil; p.opt.DryRun {
		p.opt.Ledger.Phase(report.Planning)
		now, held, err := v.release(ctx, doomed)
		if err != nil {
			return whatIsWrong(err)
		}
		v.held = held
		p.res.Held = uint64(len(held))
		for _, i := range now {
			p.res.Deleted.Add(v.packs[i].size)
			p.res.Pending.Drop(v.packs[i].size)
		}
		return nil
	}
	if len(v.ripe) == 0 {
		return nil
	}
	p.opt.Ledger.Phase(report.Indexing)
	stray := slices.ContainsFunc(v.packs, func(s packState) bool { return !s.named && s.live > 0 })
	doomed, held, err := p.unname(ctx, v, doomed)
	if err != nil {
		return err
	}
	if err := p.remove(ctx, v, doomed); err != nil {
		return err
	}
	for i := range v.ripe {
		if slices.ContainsFunc(v.ripe[i].Packs, func(id format.ID) bool { return held[id] }) {
			continue
		}
		name := object.Named(store.Mark, v.ripe[i].ID)
		if err := p.r.Store().Delete(ctx, name); err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("remove mark: %w", err)
		}
	}
	if stray { // what was pardoned may have been taken out of the index by a prune that was cut off
		p.opt.Ledger.Phase(report.Indexing)
		if _, err := p.r.RebuildIndex(ctx); err != nil {
			return err
		}
	}
	return nil
}

// doomed returns the packs of ripe marks that nothing needs, and those that something does.
func (v *survey) doomed() (doomed []int, pardoned []format.ID) {
	met := make(map[int]bool) // two prunes at once have condemned it
	for i := range v.ripe {
		for _, id := range v.ripe[i].Packs {
			at := v.find(id)
			if at < 0 || met[at] {
				continue
			}
			if met[at] = true; v.packs[at].live > 0 {
				pardoned = append(pardoned, id)
			} else {
				doomed = append(doomed, at)
			}
		}
	}
	return doomed, pardoned
}

// unname puts segments without the doomed packs in the place of those that name some. Each new segment names all other
// packs of those that it supersedes, so that at no moment a pack that stays is without a name. It returns the packs that can
// go now, and those that have to stay.
func (p *pruner) unname(ctx context.Context, v *survey, doomed []int) (_ []int, held map[format.ID]bool, err error) {
	if err := v.list(ctx); err != nil {
		return nil, nil, whatIsWrong(err)
	}
	if doomed, held, err = v.release(ctx, doomed); err != nil {
		return nil, nil, whatIsWrong(err)
	}
	p.res.Held = uint64(len(held))
	gone := v.ids(doomed)
	old := v.superseded // an earlier prune was cut off before it removed them
	n := renew.Segments{Store: p.r.Store(), Keys: p.r.Keys(), Hold: p.s.Hold}
	defer func() { p.index -= n.Written() }() // also of one that fails halfway
	v.reads(report.Indexing, v.naming())
	err = v.eachCondemned(ctx, func(info store.Info, seg *index.Segment) error {
		if !names(seg, gone) {
			return nil
		}
		old = append(old, info)
		return n.Add(ctx, info, seg, gone)
	})
	if err != nil {
		return nil, nil, whatIsWrong(err)
	}
	if err := n.Put(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.s.Hold(ctx); err != nil {
		return nil, nil, err
	}
	for _, info := range old {
		if err := p.r.Store().Delete(ctx, info.Name); err != nil && !errors.Is(err, store.ErrNotExist) {
			return nil, nil, fmt.Errorf("remove index segment: %w", err)
		}
		p.index += info.Size
	}
	return doomed, held, nil
}

// names reports whether a segment names one of some packs.
func names(seg *index.Segment, packs map[format.ID]bool) bool {
	return slices.ContainsFunc(seg.Packs, func(s index.Pack) bool { return packs[s.ID] })
}

// removedAtOnce is after how many packs the lease is looked at again.
const removedAtOnce = 256

func (p *pruner) remove(ctx context.Context, v *survey, doomed []int) error {
	if len(doomed) == 0 {
		return nil
	}
	c := report.Course{Unit: "packs", Units: uint64(len(doomed)), Exact: true}
	for _, i := range doomed {
		c.Bytes += v.packs[i].size
	}
	step := p.opt.Ledger.Step(report.Removing, c)
	for part := range slices.Chunk(doomed, removedAtOnce) {
		if err := p.s.Hold(ctx); err != nil {
			return err
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(p.opt.Parallel)
		for _, i := range part {
			g.Go(func() error {
				err := p.r.Store().Delete(ctx, object.Named(store.Pack, v.packs[i].id))
				if err != nil && !errors.Is(err, store.ErrNotExist) {
					return fmt.Errorf("remove pack %s: %w", v.packs[i].id.Short(), err)
				}
				step.Did(1, v.packs[i].size)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, i := range part {
			p.res.Deleted.Add(v.packs[i].size)
			p.res.Pending.Drop(v.packs[i].size)
		}
	}
	return nil
}
