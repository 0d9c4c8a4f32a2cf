package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// other is a writer, under a short name.
type other = session.Other

// carried bounds how many names of older segments a new one takes over from those that it supersedes: with them, a
// machine that was away for several prunes knows that nothing is missing.
const carried = 1024

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
	if p.opt.DryRun {
		now, held, err := v.release(ctx, doomed)
		if err != nil {
			return whatIsWrong(err)
		}
		v.held = held
		p.res.Held = uint64(len(held))
		for _, i := range now {
			p.res.Deleted.add(&v.packs[i])
		}
		return nil
	}
	if len(v.ripe) == 0 {
		return nil
	}
	p.opt.Phase("removing packs")
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
		if _, err := p.r.RebuildIndex(ctx); err != nil {
			return err
		}
	}
	return nil
}

// doomed returns the packs of ripe marks that nothing needs, and those that something does.
func (v *survey) doomed() (doomed []int, pardoned []format.ID) {
	for i := range v.ripe {
		for _, id := range v.ripe[i].Packs {
			at := v.find(id)
			switch {
			case at < 0 || slices.Contains(doomed, at):
			case v.packs[at].live > 0:
				pardoned = append(pardoned, id)
			default:
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
	n := newSegments{p: p}
	err = v.eachCondemned(ctx, func(info store.Info, seg *index.Segment) error {
		if !names(seg, gone) {
			return nil
		}
		old = append(old, info)
		return n.add(ctx, info, seg, gone)
	})
	if err != nil {
		return nil, nil, whatIsWrong(err)
	}
	if err := n.put(ctx); err != nil {
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

// newSegments gathers what is left of segments until it fills a new one.
type newSegments struct {
	p     *pruner
	seg   index.Segment
	older []format.ID
	blobs int
}

// add takes what is left of a segment. A segment is never divided: the new one that has a part of it would supersede it
// before the other part has a name again.
func (n *newSegments) add(ctx context.Context, info store.Info, seg *index.Segment, gone map[format.ID]bool) error {
	var packs []index.Pack
	blobs := 0
	for i := range seg.Packs {
		if gone[seg.Packs[i].ID] {
			continue
		}
		packs = append(packs, seg.Packs[i])
		for j := range seg.Packs[i].Table.Frames {
			blobs += len(seg.Packs[i].Table.Frames[j].Blobs)
		}
	}
	if len(n.seg.Packs) > 0 &&
		(len(n.seg.Packs)+len(packs) > session.SegmentPacks || n.blobs+blobs > session.SegmentBlobs) {
		if err := n.put(ctx); err != nil {
			return err
		}
	}
	for _, s := range packs {
		if !slices.ContainsFunc(n.seg.Packs, func(had index.Pack) bool { return had.ID == s.ID }) {
			n.seg.Packs = append(n.seg.Packs, s)
		}
	}
	id, err := format.ParseID(info.Name.ID)
	if err != nil {
		return fmt.Errorf("index segment: %w", err)
	}
	n.blobs += blobs
	n.seg.Supersedes = append(n.seg.Supersedes, id)
	n.older = append(n.older, seg.Supersedes...)
	return nil
}

// put writes the new segment.
func (n *newSegments) put(ctx context.Context) error {
	if len(n.seg.Supersedes) == 0 {
		return nil
	}
	if err := n.p.s.Hold(ctx); err != nil {
		return err
	}
	if len(n.seg.Supersedes)+len(n.older) <= carried {
		n.seg.Supersedes = append(n.seg.Supersedes, n.older...)
	}
	slices.SortFunc(n.seg.Supersedes, format.ID.Compare)
	n.seg.Supersedes = slices.Compact(n.seg.Supersedes)
	data, id, err := object.Seal(n.p.r.Keys(), store.Index, index.Encode(nil, &n.seg))
	if err != nil {
		return fmt.Errorf("seal index segment: %w", err)
	}
	if err := object.Put(ctx, n.p.r.Store(), object.Named(store.Index, id), data, true); err != nil {
		return fmt.Errorf("store index segment: %w", err)
	}
	n.p.index -= int64(len(data))
	*n = newSegments{p: n.p}
	return nil
}

// removedAtOnce is after how many packs the lease is looked at again.
const removedAtOnce = 256

func (p *pruner) remove(ctx context.Context, v *survey, doomed []int) error {
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
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, i := range part {
			p.res.Deleted.add(&v.packs[i])
		}
	}
	return nil
}
