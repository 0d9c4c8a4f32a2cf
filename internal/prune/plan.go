package prune

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// plan is what a prune does after its first survey: a dry run reports it, the other steps carry it out. None of its
// packs is doomed by an earlier mark.
type plan struct {
	remove    []planned // nothing in them is needed
	repack    []planned // what is needed of them is stored again before they are removed
	unused    uint64    // bytes of unused data in the other packs
	postponed bool      // more packs are worth repacking than one round has space for
}

// planned is a pack that is to be removed.
type planned struct {
	*packState
	needed uint64 // of its bytes, an estimate
	raw    uint64 // bytes of the needed blobs before compression
}

// worth is how many bytes are freed for the work of repacking: what is needed is read, decompressed, compressed and
// written.
func (t *planned) worth() float64 { return float64(t.size-t.needed) / float64(2*t.needed+t.raw) }

// plan chooses the packs to remove: those without live blobs, and those that are worth repacking.
func (p *pruner) plan(ctx context.Context, v *survey) (plan, error) {
	// A running writer may be about to name a pack that no segment names. A mark would do no harm, because the pack
	// would be revived, but a writer that acknowledges the mark would store the data once more.
	writers := slices.ContainsFunc(v.others, func(o session.Other) bool { return o.Alive })
	var out plan
	whole, unread := uint64(0), uint64(0)
	for i := range v.packs {
		s := &v.packs[i]
		switch {
		case s.doomed || !s.named && (writers || s.live > 0):
		case s.live == 0:
			out.remove = append(out.remove, planned{packState: s})
		case s.repackable():
			unread += s.size
		default:
			whole += s.size
		}
	}
	if unread == 0 {
		return out, nil
	}
	var partly []planned
	err := v.tables(ctx, report.Planning, func(s *packState, t *pack.Table) error {
		if s.repackable() {
			partly = append(partly, v.planned(s, t))
			unread -= s.size
		}
		return nil
	})
	if err != nil {
		return plan{}, err
	}
	out.repack, out.unused, out.postponed = choose(partly, whole, unread, p.opt.MaxUnused, p.round.atMost)
	return out, nil
}

// repackable reports whether some blobs of the pack are needed and others are not. Its table is in a segment.
func (s *packState) repackable() bool { return !s.doomed && s.named && s.live > 0 && s.live < s.blobs }

// choose chooses the packs to repack among partly needed ones: those that are worth most, until the limit allows what
// is unused of the rest. whole is the bytes of wholly needed packs, and unread those of packs whose table was not read.
// At most atMost bytes are to be written, but always one pack; 0: any number. It returns what stays unused, and whether
// atMost has left out a pack.
func choose(partly []planned, whole, unread uint64, limit Limit, atMost uint64) (chosen []planned, unused uint64,
	postponed bool,
) {
	slices.SortFunc(partly, func(a, b planned) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), a.id.Compare(b.id))
	})
	used, unused := whole, unread
	for i := range partly {
		used, unused = used+partly[i].needed, unused+partly[i].size-partly[i].needed
	}
	written := uint64(0)
	for _, t := range partly {
		if unused <= limit.Allowed(used) {
			break
		}
		if written > 0 && atMost > 0 && written+t.needed > atMost {
			postponed = true
			continue // a later round repacks it, in the space that this one frees
		}
		unused -= t.size - t.needed
		written += t.needed
		chosen = append(chosen, t)
	}
	return chosen, unused, postponed
}

// without returns the plan without some packs.
func (p plan) without(stays func(format.ID) bool) plan {
	p.remove = slices.DeleteFunc(slices.Clone(p.remove), func(t planned) bool { return stays(t.id) })
	p.repack = slices.DeleteFunc(slices.Clone(p.repack), func(t planned) bool {
		if stays(t.id) {
			p.unused += t.size - t.needed
		}
		return stays(t.id)
	})
	return p
}

// planned estimates how many bytes of a pack live blobs take.
func (v *survey) planned(s *packState, t *pack.Table) planned {
	u, sealed := usageOf(v.used, s, t)
	return planned{s, min(uint64(sealed), s.size), u.Raw}
}

// usageOf adds up those blobs of a pack that are in a set. Stored is left out: sealed is their share of the frames.
func usageOf(set reach.Bitset, s *packState, t *pack.Table) (u Usage, sealed float64) {
	n := s.base
	for i := range t.Frames {
		f := &t.Frames[i]
		raw := uint64(0)
		for _, b := range f.Blobs {
			if set.Has(n) {
				raw += uint64(b.Len)
				u.Blobs++
			}
			n++
		}
		if u.Raw += raw; f.Raw > 0 {
			sealed += float64(f.Sealed) * float64(raw) / float64(f.Raw)
		}
	}
	return u, sealed
}

// tables visits the table of each pack that the segments of the survey name once. It begins a step of the phase, except
// for Repacking, whose step counts packs.
func (v *survey) tables(ctx context.Context, phase report.Phase, visit func(*packState, *pack.Table) error) error {
	seen := make(map[*packState]bool)
	if v.step = nil; phase != report.Repacking {
		v.reads(phase, v.segments.Counting)
	}
	return v.eachSegment(ctx, func(_ object.Info, seg *index.Segment) error {
		for j := range seg.Packs {
			s := v.find(seg.Packs[j].ID)
			if s == nil || seen[s] || !s.known || s.size != seg.Packs[j].Size {
				continue
			}
			seen[s] = true
			if err := visit(s, &seg.Packs[j].Table); err != nil {
				return err
			}
		}
		return nil
	})
}

// forecast fills the result of a dry run. A prune removes the planned packs in the same run if no other writer is
// running.
func (p *pruner) forecast(v *survey, plan plan) {
	both := slices.Concat(plan.remove, plan.repack)
	if len(both) > 0 {
		for i := range v.others {
			if v.others[i].Alive {
				p.waitFor(&v.others[i])
			}
		}
	}
	for _, t := range both {
		p.res.Marked.Add(t.size)
		if len(p.res.Waiting) == 0 {
			p.res.Deleted.Add(t.size)
		} else {
			p.res.Pending.Add(t.size)
		}
	}
	for _, t := range plan.repack {
		p.res.Repacked.Add(t.size)
		p.res.Rewritten += t.raw
		p.res.Written.Bytes += t.needed
	}
	p.res.Freed = int64(p.res.Deleted.Bytes) - int64(p.res.Written.Bytes)
}
