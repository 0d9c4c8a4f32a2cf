package object

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Segments reads the index segments of a target. The name of a segment is its hash, so its content never changes.
type Segments struct {
	Store store.Store
	Keys  *seal.Keys
	Ahead bool // several are read at the same time
	Room  int  // bytes of what was read that are kept, for a caller that passes through them again

	mu   sync.Mutex
	kept map[format.ID][]byte // opened, but encoded
}

// VisitSegment receives a segment, or the reason why it cannot be read. Its error ends the reading.
type VisitSegment func(info Info, seg *index.Segment, err error) error

// Each reads segments, some ahead, and visits them one by one in their order.
func (s *Segments) Each(ctx context.Context, of []Info, visit VisitSegment) error {
	type read struct {
		seg *index.Segment
		err error
	}
	width, largest := 1, int64(0)
	for _, info := range of {
		largest = max(largest, info.Size)
	}
	if s.Ahead {
		width = ahead(largest)
	}
	return InOrder(ctx, len(of), width,
		func(ctx context.Context, i int) (read, error) {
			seg, err := s.read(ctx, of[i])
			return read{seg, err}, nil
		},
		func(i int, r read) error { return visit(of[i], r.seg, r.err) })
}

func (s *Segments) read(ctx context.Context, info Info) (*index.Segment, error) {
	name := Named(store.Index, info.ID)
	s.mu.Lock()
	plain, had := s.kept[info.ID]
	s.mu.Unlock()
	if !had {
		var err error
		if plain, err = Load(ctx, s.Store, s.Keys, name, info.Size); err != nil {
			return nil, err
		}
		s.keep(info.ID, plain)
	}
	seg, err := index.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name.Path(), err)
	}
	return seg, nil
}

func (s *Segments) keep(id format.ID, plain []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(plain) > s.Room {
		return
	}
	if s.kept == nil {
		s.kept = make(map[format.ID][]byte)
	}
	s.kept[id] = plain
	s.Room -= len(plain)
}

// Standing is which segments of a listing count. The zero value is that of no listing.
type Standing struct {
	Counting   []Info              // no other supersedes them; oldest first: of a blob the place read last counts
	Superseded []Info              // oldest first
	Bad        map[format.ID]error // of both, those that cannot be read: nothing is known of their packs

	supersedes map[format.ID][]format.ID // listed segments, by each that was read
}

// Update brings a Standing up to date with a newer listing. It reads the segments that were not read for it before,
// and visits them as Each does. Those whose error visit accepts are bad. The times of segments do not show which are
// superseded, because clocks may have been set back.
func (s *Segments) Update(ctx context.Context, out *Standing, listed []Info, visit VisitSegment) error {
	if out.supersedes == nil {
		out.supersedes = make(map[format.ID][]format.ID)
	}
	out.Counting, out.Superseded, out.Bad = nil, nil, make(map[format.ID]error)
	there := make(map[format.ID]bool, len(listed))
	for _, info := range listed {
		there[info.ID] = true
	}
	byAge := slices.SortedFunc(slices.Values(listed), Info.Older)
	unread := slices.DeleteFunc(slices.Clone(byAge), func(f Info) bool { _, had := out.supersedes[f.ID]; return had })
	err := s.Each(ctx, unread, func(info Info, seg *index.Segment, err error) error {
		if err != nil {
			out.Bad[info.ID] = err
		} else {
			gone := func(id format.ID) bool { return !there[id] }
			out.supersedes[info.ID] = slices.DeleteFunc(slices.Clone(seg.Supersedes), gone)
		}
		return visit(info, seg, err)
	})
	if err != nil {
		return err
	}
	old := make(map[format.ID]bool)
	for _, info := range listed {
		for _, id := range out.supersedes[info.ID] {
			old[id] = true
		}
	}
	for _, info := range byAge {
		if old[info.ID] {
			out.Superseded = append(out.Superseded, info)
		} else {
			out.Counting = append(out.Counting, info)
		}
	}
	return nil
}

// PutSegment stores a segment, and returns its name and its size in bytes. prove is as for Put.
func PutSegment(ctx context.Context, st store.Store, keys *seal.Keys, seg *index.Segment, prove bool) (id format.ID,
	size int64, err error,
) {
	data, id := Seal(keys, store.Index, index.Encode(nil, seg))
	if err := Put(ctx, st, Named(store.Index, id), data, prove); err != nil {
		return id, int64(len(data)), fmt.Errorf("store index segment: %w", err)
	}
	return id, int64(len(data)), nil
}
