package prune

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Of a blob with several places the one counts that the newest segment names, and that has a reason: a backup that finds a
// pack damaged stores anew what lay there, in another pack. A segment that is written anew is the newest. If it named a
// pack with a place that another segment has taken over, the old place would count again, and the next prune would remove
// the copy that is whole. So such a segment stays as it is, and so do the condemned packs that it names.

// release divides doomed packs into those that can go now and those that have to stay.
func (v *survey) release(ctx context.Context, doomed []int) (now []int, held map[format.ID]bool, err error) {
	gone := v.ids(doomed)
	if held, err = v.hold(ctx, gone, nil, v.eachCondemned); err != nil {
		return nil, nil, err
	}
	for _, i := range doomed {
		if !held[v.packs[i].id] {
			now = append(now, i)
		}
	}
	return now, held, nil
}

func (v *survey) ids(packs []int) map[format.ID]bool {
	ids := make(map[format.ID]bool, len(packs))
	for _, i := range packs {
		ids[v.packs[i].id] = true
	}
	return ids
}

// hold returns which of the packs that are to go have to stay, and notes which packs they have to stay for: once these are
// gone too, nothing holds the others. each reads the segments that name some of them. Who looks ahead says which packs will be
// condemned by then: what is needed of them will have been written anew elsewhere.
func (v *survey) hold(ctx context.Context, gone, condemned map[format.ID]bool,
	each func(context.Context, func(store.Info, *index.Segment) error) error,
) (map[format.ID]bool, error) {
	if len(gone) == 0 {
		return nil, nil
	}
	if single, err := v.single(gone, condemned); single || err != nil {
		return nil, err
	}
	held := make(map[format.ID]bool)
	err := each(ctx, func(_ store.Info, seg *index.Segment) error {
		if !names(seg, gone) {
			return nil
		}
		for i := range seg.Packs {
			if gone[seg.Packs[i].ID] {
				continue
			}
			taken, err := v.takenOver(seg, &seg.Packs[i], condemned)
			if err != nil {
				return err
			}
			if !taken {
				continue
			}
			if at := v.find(seg.Packs[i].ID); at >= 0 {
				v.packs[at].holds = true
			}
			for j := range seg.Packs {
				if gone[seg.Packs[j].ID] {
					held[seg.Packs[j].ID] = true
				}
			}
		}
		return nil
	})
	return held, err
}

// single reports whether no blob has a place beside the one that counts in the packs that stay. What stays of condemned packs
// is not among the places that count, and may have been written anew.
func (v *survey) single(gone, condemned map[format.ID]bool) (bool, error) {
	for i := range v.packs {
		if s := &v.packs[i]; (s.condemned || condemned[s.id]) && !gone[s.id] {
			return false, nil
		}
	}
	replaced, err := v.main.Replaced()
	if err != nil {
		return false, fmt.Errorf("look up blobs: %w", err)
	}
	return replaced == 0, nil
}

// takenOver reports whether a blob of a pack counts in a pack that this segment does not name. Within a segment, and a new
// one made of it, the order of packs decides and stays as it is.
func (v *survey) takenOver(seg *index.Segment, p *index.Pack, condemned map[format.ID]bool) (bool, error) {
	var ids []format.ID
	for i := range p.Table.Frames {
		for _, b := range p.Table.Frames[i].Blobs {
			ids = append(ids, b.ID)
		}
	}
	found := make([]hashcache.Found, len(ids))
	if err := v.main.Lookup(ids, found); err != nil {
		return false, fmt.Errorf("look up blobs: %w", err)
	}
	for i := range found {
		if !found[i].OK {
			continue // this pack is condemned by a mark that is not ripe
		}
		info, err := v.main.PackOf(found[i].Loc.Pack)
		if err != nil {
			return false, fmt.Errorf("look up pack: %w", err)
		}
		if condemned[info.ID] {
			if v.used.Has(uint64(found[i].Loc.Pack)) {
				return true, nil
			}
			continue
		}
		if info.ID != p.ID && !slices.ContainsFunc(seg.Packs, func(s index.Pack) bool { return s.ID == info.ID }) {
			return true, nil
		}
	}
	return false, nil
}
