package prune

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// plan chooses the packs to remove: those without live blobs, and those that are worth repacking. Packs that marks doom
// already are not among them.
func (p *pruner) plan(ctx context.Context, v *survey) ([]int, error) {
	// A running writer may be about to name a pack that no segment names. A mark would do no harm, because the pack
	// would be revived, but a writer that acknowledges the mark would store the data once more.
	writers := slices.ContainsFunc(v.others, func(o other) bool { return o.Alive })
	var plan, partial []int
	whole := uint64(0)
	for i := range v.packs {
		s := &v.packs[i]
		switch {
		case s.doomed || !s.named && (writers || s.live > 0):
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
	v.sortByWorth(partial, needs)
	used, left := whole, uint64(0)
	for _, i := range partial {
		used, left = used+needs[i], left+unused(i)
	}
	for _, i := range partial {
		if left <= p.opt.MaxUnused.Allowed(used) {
			break
		}
		if _, ok := needs[i]; !ok {
			continue // the index was changed meanwhile
		}
		if v.rewrite > 0 && p.round.atMost > 0 && v.rewrite+needs[i] > p.round.atMost {
			p.res.Postponed = true
			continue // a later round repacks it, in the space that this one frees
		}
		left -= unused(i)
		v.packs[i].repack = true
		v.rewrite += needs[i]
		plan = append(plan, i)
	}
	p.res.Unused = left
	return plan, nil
}

// sortByWorth sorts packs by the bytes that repacking them frees for its work. needs is how many bytes of each are
// needed: they are read, decompressed, compressed and written.
func (v *survey) sortByWorth(packs []int, needs map[int]uint64) {
	frees := func(i int) float64 { return float64(v.packs[i].size - needs[i]) }
	work := func(i int) float64 { return float64(2*needs[i] + v.packs[i].raw) }
	slices.SortFunc(packs, func(a, b int) int { return cmp.Compare(frees(b)*work(a), frees(a)*work(b)) })
}

// needed estimates how many bytes of a pack live blobs take, from their share of the frames. It sets the pack's raw to
// their size before compression.
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

// tables visits the table of each pack that the segments of the survey name once. It begins a step of the phase, except
// for Repacking, whose step counts packs.
func (v *survey) tables(ctx context.Context, phase report.Phase, visit func(i int, t *pack.Table) error) error {
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

// forecast fills the result of a dry run. A prune removes the planned packs in the same run if no other writer is
// running.
func (p *pruner) forecast(v *survey, plan []int) {
	if len(plan) > 0 {
		for i := range v.others {
			if v.others[i].Alive {
				p.waitFor(&v.others[i])
			}
		}
	}
	for _, i := range plan {
		s := &v.packs[i]
		p.res.Marked.Add(s.size)
		if len(p.res.Waiting) == 0 {
			p.res.Deleted.Add(s.size)
		} else {
			p.res.Pending.Add(s.size)
		}
		if s.repack {
			p.res.Repacked.Add(s.size)
			p.res.Rewritten += s.raw
		}
	}
	p.res.Written.Bytes = v.rewrite
	p.res.Freed = int64(p.res.Deleted.Bytes) - int64(v.rewrite)
}
