package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// packState is one pack on the target.
type packState struct {
	id        format.ID
	size      uint64
	base      uint64 // number of its first blob; the blobs of a pack are numbered as its table has them
	blobs     uint32
	known     bool // its table was read, and lists what can be found in it
	named     bool // by an index segment that counts
	condemned bool // by a mark
	repack    bool // its live blobs are to be written anew
	unread    bool // that failed
	live      uint64
	raw       uint64 // bytes of the live blobs
}

// places knows in which pack each blob lies: for each blob one place, which is the one that counts. The places are two
// temporary files, because there may be more of them than memory: main has what the index names and no mark condemns,
// spare has the rest, and is asked for what is nowhere else.
//
// The files are caches of the kind that holds the blob index of a repository, filled with tables in which each pack is one
// frame of blobs of one byte. So the place within the frame is the number of the blob in the pack.
type places struct {
	r     *repo.Repository
	packs []packState // by ascending ID
	main  shelf
	spare shelf

	segments   []store.Info // those that count, oldest first
	superseded []store.Info // those that do not
	total      uint64       // blobs in all packs
	used       bitset       // by number: a snapshot needs the blob at this place
	walked     bitset       // by number: the blob was followed as a folder or list. The same bytes may be a file's as well
}

// shelf is one of the two files.
type shelf struct {
	cache *hashcache.Cache
	at    []int32 // index into packs by the number that the cache gave
}

// bitset is a set of numbers that only grows. add is safe for concurrent use.
type bitset []atomic.Uint64

func newBitset(n uint64) bitset { return make(bitset, (n+63)/64) }

// add reports whether n was not in the set.
func (b bitset) add(n uint64) bool {
	bit := uint64(1) << (n % 64)
	return b[n/64].Or(bit)&bit == 0
}

func (b bitset) has(n uint64) bool { return b[n/64].Load()&(1<<(n%64)) != 0 }

// count returns how many numbers of [from, from+n) are in the set.
func (b bitset) count(from uint64, n uint32) (sum uint64) {
	for end := from + uint64(n); from < end; {
		word := b[from/64].Load() >> (from % 64)
		step := min(64-from%64, end-from)
		if step < 64 {
			word &= 1<<step - 1
		}
		sum += uint64(bits.OnesCount64(word))
		from += step
	}
	return sum
}

// openPlaces reads from the target what lies where.
func openPlaces(ctx context.Context, r *repo.Repository, scratch string, condemned map[format.ID]struct{}) (_ *places, err error) {
	p := &places{r: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, s := range []*shelf{&p.main, &p.spare} {
		if s.cache, err = r.TempCache(scratch); err != nil {
			return nil, fmt.Errorf("make the temporary index: %w", err)
		}
	}
	// The packs are listed after the index: a pack that a segment names was there before it.
	if err = p.list(ctx); err != nil {
		return nil, err
	}
	if err = p.listPacks(ctx, condemned); err != nil {
		return nil, err
	}
	if err = p.eachSegment(ctx, p.enter); err != nil {
		return nil, err
	}
	if err = p.enterStrays(ctx); err != nil {
		return nil, err
	}
	p.used, p.walked = newBitset(p.total), newBitset(p.total)
	return p, nil
}

func (p *places) close() error {
	var err error
	for _, s := range []*shelf{&p.main, &p.spare} {
		if s.cache != nil {
			err = errors.Join(err, s.cache.Close())
			s.cache = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove the temporary index: %w", err)
	}
	return nil
}

// list lists the index segments and finds out which count. One of those that cannot be read is an error: nobody could say
// what it names.
func (p *places) list(ctx context.Context) error {
	p.segments, p.superseded = nil, nil
	var all []store.Info
	for info, err := range p.r.Store().List(ctx, store.Index) {
		if err != nil {
			return fmt.Errorf("list index: %w", err)
		}
		if _, err := format.ParseID(info.Name.ID); err == nil {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b store.Info) int {
		if d := a.Modified.Compare(b.Modified); d != 0 {
			return d
		}
		if a.Name.ID < b.Name.ID {
			return -1
		}
		return 1
	})
	old := make(map[string]bool)
	damaged := make(map[string]error)
	err := p.each(ctx, all, func(_ store.Info, seg *index.Segment) error {
		for _, id := range seg.Supersedes {
			old[id.String()] = true
		}
		return nil
	}, func(info store.Info, err error) error {
		if !object.IsDamage(err) {
			return err
		}
		damaged[info.Name.ID] = err // which matters only if no other segment has taken its place
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(damaged)) {
		if !old[id] && err == nil {
			err = fmt.Errorf("read index: %w", damaged[id])
		}
	}
	for _, info := range all {
		if old[info.Name.ID] {
			p.superseded = append(p.superseded, info)
		} else {
			p.segments = append(p.segments, info)
		}
	}
	return err
}

// eachSegment reads the segments that count, oldest first.
func (p *places) eachSegment(ctx context.Context, visit func(store.Info, *index.Segment) error) error {
	return p.each(ctx, p.segments, visit, func(_ store.Info, err error) error { return err })
}

// each reads segments in their order, a few ahead. unread decides about one that cannot be read: it is passed over, or
// ends it all with an error.
func (p *places) each(ctx context.Context, segments []store.Info, visit func(store.Info, *index.Segment) error,
	unread func(store.Info, error) error,
) error {
	const ahead = 3
	type read struct {
		seg *index.Segment
		err error
	}
	err := object.InOrder(ctx, len(segments), ahead,
		func(ctx context.Context, i int) (read, error) {
			seg, err := p.segment(ctx, segments[i])
			return read{seg, err}, nil
		},
		func(i int, r read) error {
			switch {
			case errors.Is(r.err, store.ErrNotExist):
				return nil // another writer has put a new one in its place, which is listed the next time
			case r.err != nil:
				return unread(segments[i], r.err)
			}
			return visit(segments[i], r.seg)
		})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	return nil
}

func (p *places) segment(ctx context.Context, info store.Info) (*index.Segment, error) {
	plain, err := object.Load(ctx, p.r.Store(), p.r.Keys(), info.Name, info.Size)
	if err != nil {
		return nil, err
	}
	seg, err := index.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return seg, nil
}

func (p *places) listPacks(ctx context.Context, condemned map[format.ID]struct{}) error {
	for info, err := range p.r.Store().List(ctx, store.Pack) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			_, bad := condemned[id]
			p.packs = append(p.packs, packState{id: id, size: uint64(info.Size), condemned: bad})
		}
	}
	slices.SortFunc(p.packs, func(a, b packState) int { return a.id.Compare(b.id) })
	return nil
}

// find returns where in p.packs a pack is, or -1.
func (p *places) find(id format.ID) int {
	i, ok := slices.BinarySearchFunc(p.packs, id, func(s packState, id format.ID) int { return s.id.Compare(id) })
	if !ok {
		return -1
	}
	return i
}

// enter takes the packs of a segment that are there in the size that the segment says.
func (p *places) enter(info store.Info, seg *index.Segment) error {
	var main, spare []index.Pack
	for i := range seg.Packs {
		at := p.find(seg.Packs[i].ID)
		if at < 0 {
			continue
		}
		s := &p.packs[at]
		s.named = true
		if s.known || s.size != seg.Packs[i].Size {
			continue
		}
		if p.number(s, &seg.Packs[i].Table); s.condemned {
			spare = append(spare, numbered(&seg.Packs[i]))
		} else {
			main = append(main, numbered(&seg.Packs[i]))
		}
	}
	id, _ := format.ParseID(info.Name.ID)
	return errors.Join(p.merge(&p.main, id, main), p.merge(&p.spare, id, spare))
}

// number gives the blobs of a pack their numbers.
func (p *places) number(s *packState, t *pack.Table) {
	s.known, s.base = true, p.total
	for i := range t.Frames {
		s.blobs += uint32(len(t.Frames[i].Blobs))
	}
	p.total += uint64(s.blobs)
}

// numbered is a pack as one frame of blobs of one byte.
func numbered(p *index.Pack) index.Pack {
	frame := pack.Frame{Offset: pack.HeaderSize}
	for i := range p.Table.Frames {
		for _, b := range p.Table.Frames[i].Blobs {
			frame.Blobs = append(frame.Blobs, pack.Blob{ID: b.ID, Len: 1})
		}
	}
	t := pack.Table{Kind: p.Table.Kind, Salt: p.Table.Salt, Frames: []pack.Frame{frame}}
	return index.Pack{ID: p.ID, Size: p.Size, Table: t}
}

func (p *places) merge(s *shelf, id format.ID, packs []index.Pack) error {
	if len(packs) == 0 {
		return nil
	}
	if err := s.cache.Merge(id, &index.Segment{Packs: packs}); err != nil {
		return fmt.Errorf("fill the temporary index: %w", err)
	}
	for i := range packs { // the cache numbers packs in the order in which they come
		s.at = append(s.at, int32(p.find(packs[i].ID)))
	}
	return nil
}

// enterStrays reads the tables of the packs that no segment names: a writer is about to name them, was cut off, or a prune
// has taken them out of the index. One that cannot be read holds nothing that can be found.
func (p *places) enterStrays(ctx context.Context) error {
	for i := range p.packs {
		s := &p.packs[i]
		if s.named {
			continue
		}
		name := object.Named(store.Pack, s.id)
		t, err := pack.OpenTable(p.r.Keys(), int64(s.size), func(off int64, b []byte) error {
			return object.ReadAt(ctx, p.r.Store(), name, off, b)
		})
		switch {
		case errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("pack %s: %w", s.id, err)
		}
		p.number(s, &t)
		if err := p.merge(&p.spare, s.id, []index.Pack{numbered(&index.Pack{ID: s.id, Size: s.size, Table: t})}); err != nil {
			return err
		}
	}
	return nil
}

// locate returns the numbers of blobs, and the first that is nowhere.
func (p *places) locate(ids []format.ID, found []hashcache.Found, out []uint64) (missing *format.ID, err error) {
	if err := p.main.cache.Lookup(ids, found); err != nil {
		return nil, fmt.Errorf("look up blobs: %w", err)
	}
	for i := range found {
		if found[i].OK {
			out[i] = p.numberOf(&p.main, found[i].Loc)
			continue
		}
		var one [1]hashcache.Found
		if err := p.spare.cache.Lookup(ids[i:i+1], one[:]); err != nil {
			return nil, fmt.Errorf("look up blobs: %w", err)
		}
		if !one[0].OK {
			return &ids[i], nil
		}
		out[i] = p.numberOf(&p.spare, one[0].Loc)
	}
	return nil, nil
}

func (p *places) numberOf(s *shelf, loc hashcache.Loc) uint64 {
	return p.packs[s.at[loc.Pack]].base + uint64(loc.Skip)
}
