package prune

import (
	"context"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Of a blob with several places, readers use the one in the newest segment. This matters after damage: a backup that
// finds a pack damaged stores its blobs again, in another pack. A rewritten segment is the newest of all. If it named a
// pack with a blob whose place is in another segment by now, readers would use the old place again, and a damaged copy
// before the intact one. Such a segment is therefore not rewritten, and the doomed packs that it names are held back.

// splitRemovable divides removable packs into those that can be removed now and those that are held back.
func (v *survey) splitRemovable(ctx context.Context, removable []int) (now []int, held map[format.ID]bool, err error) {
	gone := v.ids(removable)
	for _, id := range v.absent() {
		gone[id] = true
	}
	if held, err = v.holdBack(ctx, gone, nil, v.eachDoomed); err != nil {
		return nil, nil, err
	}
	for _, i := range removable {
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

// holdBack returns which packs of gone are held back, and marks the packs that hold them back: the next plan repacks
// these first. each visits the segments that name packs of gone. A forecast passes in doomed the packs that will be
// doomed by then, whose live blobs will have been repacked.
func (v *survey) holdBack(ctx context.Context, gone, doomed map[format.ID]bool,
	each func(context.Context, func(store.Info, *index.Segment) error) error,
) (map[format.ID]bool, error) {
	if len(gone) == 0 {
		return nil, nil
	}
	if single, err := v.single(gone, doomed); single || err != nil {
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
			taken, err := v.takenOver(seg, &seg.Packs[i], doomed)
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

// single reports whether each blob has one place only in the packs that stay. Then nothing is held back, and no segment
// need be read. Doomed packs that stay are an exception: their blobs may lie elsewhere too.
func (v *survey) single(gone, doomed map[format.ID]bool) (bool, error) {
	for i := range v.packs {
		if s := &v.packs[i]; (s.doomed || doomed[s.id]) && !gone[s.id] {
			return false, nil
		}
	}
	replaced, err := v.index.Replaced(rankIndexed)
	return replaced == 0, err
}

// takenOver reports whether a blob of a pack counts in a pack that this segment does not name. Within a segment the
// order of packs decides, and a rewritten segment keeps that order.
func (v *survey) takenOver(seg *index.Segment, p *index.Pack, doomed map[format.ID]bool) (bool, error) {
	var ids []format.ID
	for i := range p.Table.Frames {
		for _, b := range p.Table.Frames[i].Blobs {
			ids = append(ids, b.ID)
		}
	}
	found, err := v.index.Locate(&reach.Query{}, ids)
	if err != nil {
		return false, err
	}
	for i := range found {
		if found[i].Lost() || found[i].Rank() != rankIndexed {
			continue // this pack is doomed by a mark that is not ripe
		}
		info, err := v.index.PackOf(&found[i])
		if err != nil {
			return false, err
		}
		if doomed[info.ID] {
			if v.used.Has(found[i].Number()) {
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
