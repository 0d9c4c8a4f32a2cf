// Package renew writes index segments that take the place of others, without the packs that go. It refuses to know which packs
// these are and why, and removes nothing.
package renew

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// carried bounds how many names of older segments a new one takes over from those that it supersedes: with them, a
// machine that was away for several prunes knows that nothing is missing.
const carried = 1024

// Segments gathers what is left of segments until it fills a new one.
type Segments struct {
	Store store.Store
	Keys  *seal.Keys
	Hold  func(context.Context) error // is called before each is put, and ends it with its error

	written int64 // bytes
	seg     index.Segment
	older   []format.ID
	blobs   int
}

// Add takes what is left of a segment. A segment is never divided: the new one that has a part of it would supersede it
// before the other part has a name again.
func (n *Segments) Add(ctx context.Context, info store.Info, seg *index.Segment, gone map[format.ID]bool) error {
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
		if err := n.Put(ctx); err != nil {
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

// Put writes the new segment, if there is anything for it.
func (n *Segments) Put(ctx context.Context) error {
	if len(n.seg.Supersedes) == 0 {
		return nil
	}
	if err := n.Hold(ctx); err != nil {
		return err
	}
	if len(n.seg.Supersedes)+len(n.older) <= carried {
		n.seg.Supersedes = append(n.seg.Supersedes, n.older...)
	}
	slices.SortFunc(n.seg.Supersedes, format.ID.Compare)
	n.seg.Supersedes = slices.Compact(n.seg.Supersedes)
	data, id, err := object.Seal(n.Keys, store.Index, index.Encode(nil, &n.seg))
	if err != nil {
		return fmt.Errorf("seal index segment: %w", err)
	}
	if err := object.Put(ctx, n.Store, object.Named(store.Index, id), data, true); err != nil {
		return fmt.Errorf("store index segment: %w", err)
	}
	n.written += int64(len(data))
	n.seg, n.older, n.blobs = index.Segment{}, nil, 0
	return nil
}

// Written is how many bytes were put.
func (n *Segments) Written() int64 { return n.written }
