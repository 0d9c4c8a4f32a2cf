package prune

import (
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// carried bounds how many names of older segments a new segment takes over from those that it supersedes. With these
// names a machine that was offline during several prunes knows that nothing is missing.
const carried = 1024

// segments writes index segments that supersede others, without the packs that are removed. The remaining packs of
// several segments are gathered until they fill a new one.
type segments struct {
	p        *pruner
	heaviest int // weight of a segment at most

	written int64 // bytes
	count   int
	seg     index.Segment
	older   []format.ID
	weight  int
}

// add adds the remaining packs of a segment. A segment is never divided: the new segment with one part of it would
// supersede it before the index names the other part again.
func (n *segments) add(ctx context.Context, info object.Info, seg *index.Segment, removed map[format.ID]bool) error {
	var packs []index.Pack
	for i := range seg.Packs {
		if !removed[seg.Packs[i].ID] {
			packs = append(packs, seg.Packs[i])
		}
	}
	weight := weigh(packs)
	if len(n.seg.Packs) > 0 && n.weight+weight > n.heaviest {
		if err := n.put(ctx); err != nil {
			return err
		}
	}
	for _, s := range packs {
		if !slices.ContainsFunc(n.seg.Packs, func(had index.Pack) bool { return had.ID == s.ID }) {
			n.seg.Packs = append(n.seg.Packs, s)
		}
	}
	n.weight += weight
	n.seg.Supersedes = append(n.seg.Supersedes, info.ID)
	n.older = append(n.older, seg.Supersedes...)
	return nil
}

// put writes the new segment, if anything was gathered.
func (n *segments) put(ctx context.Context) error {
	if len(n.seg.Supersedes) == 0 {
		return nil
	}
	if err := n.p.s.RenewOrFail(ctx); err != nil {
		return err
	}
	if len(n.seg.Supersedes)+len(n.older) <= carried {
		n.seg.Supersedes = append(n.seg.Supersedes, n.older...)
	}
	slices.SortFunc(n.seg.Supersedes, format.ID.Compare)
	n.seg.Supersedes = slices.Compact(n.seg.Supersedes)
	_, size, err := object.PutSegment(ctx, n.p.r.Store(), n.p.r.Keys(), &n.seg, true)
	if err != nil {
		return err
	}
	n.written, n.count = n.written+size, n.count+1
	n.seg, n.older, n.weight = index.Segment{}, nil, 0
	return nil
}
