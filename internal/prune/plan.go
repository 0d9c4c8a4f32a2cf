package prune

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// plan chooses the packs that are to go: those of which nothing is needed, and those whose live blobs are worth to be
// written anew. What marks condemn already is not among them.
func (p *pruner) plan(ctx context.Context, v *survey) ([]int, error) {
	// What no segment names may be the work of a writer who is about to name it. It would be pardoned; but a writer who
	// heeds the mark would store it once more.
	writers := slices.ContainsFunc(v.others, func(o other) bool { return o.Alive })
	var plan, partial []int
	whole := uint64(0)
	for i := range v.packs {
		s := &v.packs[i]
		switch {
		case s.condemned || !s.named && (writers || s.live > 0):
		case s.live == 0:
			plan = append(plan, i)
		case s.live < uint64(s.blobs):
			partial = append(partial, i)
		default:
			whole += s.size
		}
	}
	if len(partial) == 0 {
		return plan, nil
	}
	needs := make(map[int]uint64, len(partial)) // bytes of the pack that are needed
	err := v.tables(ctx, report.Planning, func(i int, t *pack.Table) error {
		if s := &v.packs[i]; s.live > 0 && s.live < uint64(s.blobs) {
			needs[i] = v.needed(s, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	unused := func(i int) uint64 { return v.packs[i].size - needs[i] }
	slices.SortFunc(partial, func(a, b int) int {
		if ha, hb := v.packs[a].holds, v.packs[b].holds; ha != hb { // what holds other packs goes first
			if ha {
				return -1
			}
			return 1
		}
		// The emptiest first: there the least is written for what is gained.
		return cmp.Compare(float64(unused(b))/float64(v.packs[b].size), float64(unused(a))/float64(v.packs[a].size))
	})
	used, left := whole, uint64(0)
	for _, i := range partial {
		used, left = used+needs[i], left+unused(i)
	}
	for _, i := range partial {
		if left <= p.opt.MaxUnused.Allowed(used) && (!v.packs[i].holds || p.opt.MaxUnused.None) {
			break
		}
		if _, ok := needs[i]; !ok {
			continue // the index was changed meanwhile
		}
		left -= unused(i)
		v.packs[i].repack = true
		v.rewrite += needs[i]
		plan = append(plan, i)
	}
	p.res.Unused = left
	return plan, nil
}

// needed estimates how many bytes of a pack live blobs take, from their share of the frames, and notes what they are
// before compression.
func (v *survey) needed(s *packState, t *pack.Table) uint64 {
	n, sealed := s.base, 0.0
	s.raw = 0
	for i := range t.Frames {
		f := &t.Frames[i]
		live, all := uint64(0), uint64(0)
		for _, b := range f.Blobs {
			if all += uint64(b.Len); v.used.Has(n) {
				live += uint64(b.Len)
			}
			n++
		}
		s.raw += live
		if all > 0 {
			sealed += float64(f.Sealed) * float64(live) / float64(all)
		}
	}
	return min(uint64(sealed), s.size)
}

// tables visits the table of each pack that the index names, once. That is a step of a phase, or with the phase Repacking part
// of one.
func (v *survey) tables(ctx context.Context, phase report.Phase, visit func(i int, t *pack.Table) error) error {
	if err := v.list(ctx); err != nil { // writers go on, and what was read before may be superseded
		return err
	}
	seen := make(map[int]bool)
	if v.step = nil; phase != report.Repacking {
		v.reads(phase, v.segments)
	}
	return v.eachSegment(ctx, func(_ store.Info, seg *index.Segment) error {
		for j := range seg.Packs {
			i := v.find(seg.Packs[j].ID)
			if i < 0 || seen[i] || !v.packs[i].known || v.packs[i].size != seg.Packs[j].Size {
				continue
			}
			seen[i] = true
			if err := visit(i, &seg.Packs[j].Table); err != nil {
				return err
			}
		}
		return nil
	})
}

// forecast is what a dry run says. What is planned is removed by the same run if nobody else is at work, and no listing has
// to settle.
func (p *pruner) forecast(ctx context.Context, v *survey, plan []int) error {
	if len(plan) > 0 {
		for i := range v.others {
			if v.others[i].Alive {
				p.waitFor(&v.others[i])
			}
		}
		p.res.Settling = p.res.Settling || p.opt.Settle > 0
	}
	for _, i := range plan {
		s := &v.packs[i]
		p.res.Condemned.Add(s.size)
		if s.repack {
			p.res.Repacked.Add(s.size)
			p.res.Rewritten += s.raw
		}
	}
	if len(plan) > 0 {
		if err := p.foresee(ctx, v, plan); err != nil {
			return err
		}
	}
	p.res.Written.Bytes = v.rewrite
	p.res.Freed = int64(p.res.Deleted.Bytes) - int64(v.rewrite)
	return nil
}

// foresee looks ahead at the sweep that follows the mark in the same run.
func (p *pruner) foresee(ctx context.Context, v *survey, plan []int) error {
	for _, i := range plan {
		p.res.Pending.Add(v.packs[i].size)
	}
	condemned, gone := v.ids(plan), maps.Clone(v.held)
	if len(p.res.Waiting) == 0 && !p.res.Settling {
		gone = maps.Clone(condemned)
		maps.Copy(gone, v.held)
	}
	v.reads(report.Planning, v.segments)
	held, err := v.hold(ctx, gone, condemned, v.eachSegment)
	if err != nil {
		return whatIsWrong(err)
	}
	for id := range gone {
		if !held[id] {
			p.res.Deleted.Add(v.packs[v.find(id)].size)
			p.res.Pending.Drop(v.packs[v.find(id)].size)
		}
	}
	p.res.Held = uint64(len(held))
	return nil
}
