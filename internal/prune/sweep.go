package prune

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// removal is what a sweep does.
type removal struct {
	packs   []*packState // to be removed
	revived []format.ID  // marked, but needed by now
	marks   []store.Name // carried out with that
}

// sweep removes the packs of ripe marks that no snapshot needs: first from the index, then the packs, then the marks. A
// crash in between leaves the mark, and the next prune continues. Packs that a snapshot needs by now are revived: they
// stay, and their mark is removed.
func (p *pruner) sweep(ctx context.Context, v *survey) error {
	what, err := p.removal(ctx, v)
	if err != nil {
		return err
	}
	for _, id := range what.revived { // each sweep meets those of a mark that stays
		p.revived[id] = true
	}
	p.res.Revived = uint64(len(p.revived))
	if v.step = nil; p.opt.DryRun {
		p.opt.Ledger.Phase(report.Planning)
		for _, t := range what.packs {
			p.res.Deleted.Add(t.size)
			p.res.Pending.Drop(t.size)
		}
		return nil
	}
	if len(v.ripe) == 0 {
		return nil
	}
	p.opt.Ledger.Phase(report.Indexing)
	stray := slices.ContainsFunc(v.packs, func(s packState) bool { return !s.named && s.live > 0 })
	if err := p.clear(ctx, v, what.packs); err != nil {
		return err
	}
	gone, err := p.acknowledged(ctx, v, what)
	if err == nil {
		err = p.removeAll(ctx, gone, func(int) {})
	}
	if err != nil {
		return err
	}
	if stray { // a prune that was cut off may have removed revived packs from the index
		p.opt.Ledger.Phase(report.Indexing)
		return p.r.Index().Rebuild(ctx)
	}
	return nil
}

// acknowledged returns the marks that go after their packs. It reads the leases once more: a writer that began
// meanwhile lists the index and the marks at the same time, so it may have seen the index as it was. Marks that it
// does not acknowledge stay for the next prune, and the writer finds them.
func (p *pruner) acknowledged(ctx context.Context, v *survey, what removal) ([]store.Name, error) {
	if len(what.packs)+len(v.absent()) == 0 {
		return what.marks, nil // nothing was removed
	}
	others, err := p.writers(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(what.marks, func(name store.Name) bool {
		id, err := format.ParseID(name.ID)
		return err != nil || slices.ContainsFunc(others, func(o session.Other) bool { return o.Alive && !o.Acknowledges(id) })
	}), nil
}

// removal decides what a sweep does, and proves the packs that it is to remove.
func (p *pruner) removal(ctx context.Context, v *survey) (removal, error) {
	what := v.removable()
	kept, err := p.mustStay(ctx, v, what.packs)
	if err != nil {
		return what, err
	}
	what.packs = slices.DeleteFunc(what.packs, func(s *packState) bool { return kept[s.id] })
	for id := range kept {
		if !v.damaged(id) {
			what.revived = append(what.revived, id)
		}
	}
	for i := range v.ripe {
		m := &v.ripe[i]
		stays := func(id format.ID) bool { return m.Damaged && (kept[id] || v.needs(id)) }
		if !slices.ContainsFunc(m.Packs, stays) {
			what.marks = append(what.marks, m.Name())
		}
	}
	return what, nil
}

// removable returns the packs of ripe marks without live blobs, and the revived ones.
func (v *survey) removable() (what removal) {
	met := make(map[*packState]bool) // two concurrent prunes may doom the same pack
	for i := range v.ripe {
		for _, id := range v.ripe[i].Packs {
			s := v.find(id)
			if s == nil || met[s] {
				continue
			}
			switch met[s] = true; {
			case s.live == 0:
				what.packs = append(what.packs, s)
			case !v.damaged(id): // a damaged pack that is needed stays, and so does its mark
				what.revived = append(what.revived, id)
			}
		}
	}
	return what
}

// damaged reports whether a mark names a pack as missing or damaged.
func (v *survey) damaged(id format.ID) bool {
	return slices.ContainsFunc(v.marks, func(m marks.Mark) bool {
		_, named := slices.BinarySearchFunc(m.Packs, id, format.ID.Compare)
		return m.Damaged && named
	})
}

// needs reports whether a snapshot needs a blob that counts in that pack.
func (v *survey) needs(id format.ID) bool {
	s := v.find(id)
	return s != nil && s.live > 0
}

// absent returns the packs of ripe marks that do not exist: lost ones, and those that a prune removed before it was cut
// off. The sweep removes them from the index, because without their mark they would be reported as a new loss.
func (v *survey) absent() (ids []format.ID) {
	for i := range v.ripe {
		for _, id := range v.ripe[i].Packs {
			if v.find(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// clear removes packs from the index, and then the packs. Where there is no space for new segments, the packs go first:
// until their mark is gone too, writers treat them as absent, and a prune that continues removes them from the index.
func (p *pruner) clear(ctx context.Context, v *survey, removable []*packState) error {
	if err := v.list(ctx); err != nil {
		return indexError(err)
	}
	steps := []func(context.Context, *survey, []*packState) error{p.unname, p.remove}
	if p.round.tight {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(ctx, v, removable); err != nil {
			return err
		}
	}
	return nil
}

// unname removes packs from the index: new segments supersede those that name some of them. Each new segment names all
// other packs of the superseded ones, so every pack that stays is named at every moment.
func (p *pruner) unname(ctx context.Context, v *survey, removable []*packState) error {
	gone := make(map[format.ID]bool)
	for _, t := range removable {
		gone[t.id] = true
	}
	for _, id := range v.absent() {
		gone[id] = true
	}
	switch {
	case len(gone) == 0: // there is nothing to read
		return p.rewrite(ctx, v, nil, gone, nil)
	case !slices.ContainsFunc(v.marks, func(m marks.Mark) bool { return m.Damaged }):
		return p.rewrite(ctx, v, v.naming(), gone, nil)
	}
	before, healed, err := v.healed(ctx, gone)
	if err != nil {
		return indexError(err)
	}
	if len(healed) == 0 {
		return p.rewrite(ctx, v, v.naming(), gone, nil)
	}
	if err := p.rewrite(ctx, v, before, gone, nil); err != nil {
		return err
	}
	after := slices.DeleteFunc(slices.Clone(v.segments.Counting),
		func(i object.Info) bool { return slices.Contains(before, i) })
	return p.rewrite(ctx, v, after, gone, healed)
}

// healed returns the segments to be written again that name damaged packs which stay, and the packs in which blobs of
// these count. Of two places of a blob the index returns that of the newer segment. So the segments of the healed packs
// are written after the others, else writers would store these blobs once more.
func (v *survey) healed(ctx context.Context, gone map[format.ID]bool) (before []object.Info, healed map[format.ID]bool,
	err error,
) {
	healed = make(map[format.ID]bool)
	err = v.each(ctx, v.naming(), func(info object.Info, seg *index.Segment) error {
		if !names(seg, gone) {
			return nil
		}
		for i := range seg.Packs {
			s := &seg.Packs[i]
			if gone[s.ID] || !v.damaged(s.ID) {
				continue
			}
			if !slices.Contains(before, info) {
				before = append(before, info)
			}
			found, err := v.index.Locate(nil, s.Table.IDs())
			for j := 0; err == nil && j < len(found); j++ {
				var at blobindex.Found
				if at, err = v.index.Found(&found[j]); at.Pack != nil && at.Pack.ID != s.ID {
					healed[at.Pack.ID] = true
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return before, healed, err
}

// rewrite writes new segments without the packs that are gone, which supersede those of the given ones that name such
// packs or healed ones; all of them if gone is nil. Then it removes the superseded ones.
func (p *pruner) rewrite(ctx context.Context, v *survey, from []object.Info, gone, healed map[format.ID]bool) error {
	old := v.segments.Superseded // left by a prune that was cut off
	v.segments.Superseded = nil
	n := segments{p: p, heaviest: v.heaviest()}
	defer func() { p.index, p.put = p.index-n.written, p.put+n.count }() // also after a failure
	v.reads(report.Indexing, from)
	err := v.each(ctx, from, func(info object.Info, seg *index.Segment) error {
		if gone != nil && !names(seg, gone) && !names(seg, healed) {
			return nil
		}
		old = append(old, info)
		return n.add(ctx, info, seg, gone)
	})
	if err != nil {
		return indexError(err)
	}
	if err := n.put(ctx); err != nil {
		return err
	}
	if err := p.s.RenewOrFail(ctx); err != nil {
		return err
	}
	names := make([]store.Name, len(old))
	for i, info := range old {
		names[i] = object.Named(store.Index, info.ID)
	}
	return p.removeAll(ctx, names, func(i int) { p.index += old[i].Size })
}

// names reports whether a segment names one of some packs.
func names(seg *index.Segment, packs map[format.ID]bool) bool {
	return slices.ContainsFunc(seg.Packs, func(s index.Pack) bool { return packs[s.ID] })
}

// removedAtOnce is how many packs are removed between two checks of the lease.
const removedAtOnce = 256

// removeAll removes files, and calls done for each, not concurrently.
func (p *pruner) removeAll(ctx context.Context, names []store.Name, done func(i int)) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(object.SmallAtOnce)
	for i, name := range names {
		g.Go(func() error {
			if err := store.Discard(ctx, p.r.Store(), name); err != nil {
				return fmt.Errorf("remove %s: %w", name.Path(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			done(i)
			return nil
		})
	}
	return g.Wait()
}

func (p *pruner) remove(ctx context.Context, _ *survey, removable []*packState) error {
	if len(removable) == 0 {
		return nil
	}
	c := report.Course{Unit: "packs", Units: uint64(len(removable)), Exact: true}
	for _, t := range removable {
		c.Bytes += t.size
	}
	step := p.opt.Ledger.Step(report.Removing, c)
	for part := range slices.Chunk(removable, removedAtOnce) {
		if err := p.s.RenewOrFail(ctx); err != nil {
			return err
		}
		names := make([]store.Name, len(part))
		for i, t := range part {
			names[i] = object.Named(store.Pack, t.id)
		}
		if err := p.removeAll(ctx, names, func(i int) { step.Did(1, part[i].size) }); err != nil {
			return err
		}
		for _, t := range part {
			delete(p.bad, t.id)
			p.res.Deleted.Add(t.size)
			p.res.Pending.Drop(t.size)
		}
	}
	return nil
}
