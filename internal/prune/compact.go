package prune

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Each backup leaves an index segment or more, and a machine that opens the repository for the first time reads them
// all. A prune merges small segments, also those of other machines. What a merge writes weighs at least three times as
// much as the heaviest segment in it, and heavy segments are not merged again, so a blob is written again few times.

const (
	// A new segment weighs at most a 512th of the index, at least like the largest of a backup (2 MB), and at most 11 MB.
	// With segments of 11 MB a machine takes 143 MB of memory while it makes its cache, with small ones 64 MB. A removal
	// of packs rewrites whole segments, so they are not larger than they have to be. A million full packs, of 16 MiB in
	// chunks of 64 KiB, are named by less than a thousand segments.
	parts, leastWeight, mostWeight = 512, session.SegmentBlobs, 320 << 10
	// packWeight is the weight of a pack beside that of its blobs.
	packWeight = 16
	// fewest is how many segments are worth it: every machine reads the index again afterwards.
	fewest = 96
)

// weigh returns the weight of a segment of packs: a measure of its bytes.
func weigh(packs []index.Pack) (weight int) {
	for i := range packs {
		weight += packWeight + packs[i].Table.Blobs()
	}
	return weight
}

// heaviest bounds the weight of a new segment.
func (p *places) heaviest() int {
	total := 0
	for _, info := range p.segments.Counting {
		total += p.noted[info.ID].weight
	}
	return min(max(total/parts, leastWeight), mostWeight)
}

// small returns the segments that may be merged, the lightest first. One that names a doomed pack waits until the mark
// is gone.
func (p *places) small() (small []object.Info) {
	heaviest := p.heaviest()
	for _, info := range p.segments.Counting {
		if n, had := p.noted[info.ID]; had && !n.doomed && n.weight < heaviest/2 {
			small = append(small, info)
		}
	}
	slices.SortStableFunc(small, func(a, b object.Info) int {
		return cmp.Compare(p.noted[a.ID].weight, p.noted[b.ID].weight)
	})
	return small
}

// worthwhile returns how many of the lightest segments are merged: as many as possible, such that the heaviest weighs
// at most half of all others together. If none are merged, the weights of all but the first few grow by half of the sum
// with each, so there are few.
func worthwhile(weights []int) (n int) {
	before := 0
	for i, w := range weights {
		if i+1 >= fewest && 2*w <= before {
			n = i + 1
		}
		before += w
	}
	return n
}

// compact merges small segments, if no other writer has written since the survey and none is running: a backup requires
// of its own segments that they stay until it has ended, and may have stored blobs again because the pack of the survey
// is damaged.
func (p *pruner) compact(ctx context.Context, v *survey) error {
	if p.round.tight || len(v.small()) < fewest && len(v.segments.Superseded) == 0 {
		return nil
	}
	// First the segments are listed, then the leases: a segment in the listing is of a writer that has ended or has a
	// lease.
	if err := v.list(ctx); err != nil {
		return indexError(err)
	}
	others, err := p.others(ctx)
	if err != nil {
		return err
	}
	small := v.small()
	if len(v.noted) != v.first+p.put || slices.ContainsFunc(others, func(o session.Other) bool { return o.Alive }) {
		small = nil
	}
	weights := make([]int, len(small))
	for i := range small {
		weights[i] = v.noted[small[i].ID].weight
	}
	if small = small[:worthwhile(weights)]; len(small) == 0 && len(v.segments.Superseded) == 0 {
		return nil
	}
	return p.rewrite(ctx, v, small, nil, nil)
}
