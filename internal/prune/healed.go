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

// hold returns the doomed packs that have to stay, and notes which packs they have to stay for: once these are gone too,
// nothing holds the others.
func (v *survey) hold(ctx context.Context, gone map[format.ID]bool) (map[format.ID]bool, error) {
	if len(gone) == 0 {
		return nil, nil
	}
	replaced, err := v.main.Replaced()
	if err != nil {
		return nil, fmt.Errorf("look up blobs: %w", err)
	}
	if replaced == 0 {
		return nil, nil
	}
	held := make(map[format.ID]bool)
	err = v.eachCondemned(ctx, func(_ store.Info, seg *index.Segment) error {
		if !names(seg, gone) {
			return nil
		}
		for i := range seg.Packs {
			if gone[seg.Packs[i].ID] {
				continue
			}
			taken, err := v.takenOver(seg, &seg.Packs[i])
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

// takenOver reports whether a blob of a pack counts in a pack that this segment does not name. Within a segment, and a new
// one made of it, the order of packs decides and stays as it is.
func (v *survey) takenOver(seg *index.Segment, p *index.Pack) (bool, error) {
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
		if info.ID != p.ID && !slices.ContainsFunc(seg.Packs, func(s index.Pack) bool { return s.ID == info.ID }) {
			return true, nil
		}
	}
	return false, nil
}
