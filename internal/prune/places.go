package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/numset"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
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
	holds     bool // its segment cannot be written anew while it is there: see hold
	repack    bool // its live blobs are to be written anew
	unread    bool // that failed
	live      uint64
	raw       uint64 // bytes of the live blobs
}

// places knows in which pack each blob lies: for each blob one place, which is the one that counts. The places are two
// temporary files, because there may be more of them than memory: main has what the index names and no mark condemns,
// spare has the rest, and is asked for what is nowhere else. In both of them together each blob has a number.
type places struct {
	r     *repo.Repository
	packs []packState // by ascending ID
	main  *hashcache.Numbered
	spare *hashcache.Numbered

	segments   []store.Info // those that count, oldest first
	superseded []store.Info // those that do not
	noted      map[string]noted
	condemned  map[format.ID]struct{}
	ledger     *report.Ledger
	step       *report.Step // that each is a part of; nil: it is part of something else
	pages      uint64       // blobs of trees in all packs
	pageBytes  uint64       // theirs, before compression
	total      uint64       // blobs in all packs
	used       numset.Set   // by number: a snapshot needs the blob at this place
	walked     numset.Set   // by number: the blob was followed as a folder or list. The same bytes may be a file's as well
}

// noted is what stays known of a segment that was read once. Its name is its hash, so it never says anything else.
type noted struct {
	supersedes []string // of the segments that were listed then
	condemned  bool     // it names a pack that a mark condemns
}

// openPlaces reads from the target what lies where.
func openPlaces(ctx context.Context, r *repo.Repository, opt Options, condemned map[format.ID]struct{}) (_ *places, err error) {
	p := &places{r: r, ledger: opt.Ledger, noted: make(map[string]noted), condemned: condemned}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, x := range []**hashcache.Numbered{&p.main, &p.spare} {
		if *x, err = r.TempIndex(opt.Scratch); err != nil {
			return nil, fmt.Errorf("make the temporary index: %w", err)
		}
	}
	// The packs are listed after the index: a pack that a segment names was there before it.
	if err = p.list(ctx); err != nil {
		return nil, err
	}
	if err = p.listPacks(ctx); err != nil {
		return nil, err
	}
	p.reads(report.Listing, p.segments)
	if err = p.eachSegment(ctx, p.enter); err != nil {
		return nil, err
	}
	if err = p.enterStrays(ctx); err != nil {
		return nil, err
	}
	p.used, p.walked = numset.New(p.total), numset.New(p.total)
	return p, nil
}

func (p *places) close() error {
	var err error
	for _, x := range []**hashcache.Numbered{&p.main, &p.spare} {
		if *x != nil {
			err = errors.Join(err, (*x).Close())
			*x = nil
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
	damaged, err := p.note(ctx, all)
	old := make(map[string]bool)
	for _, info := range all {
		for _, name := range p.noted[info.Name.ID].supersedes {
			old[name] = true
		}
	}
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

// note reads those of the listed segments that were not read before, and returns the damaged ones: these matter only if no
// other segment has taken their place.
func (p *places) note(ctx context.Context, all []store.Info) (damaged map[string]error, err error) {
	listed := make(map[string]bool, len(all))
	var fresh []store.Info
	for _, info := range all {
		listed[info.Name.ID] = true
		if _, had := p.noted[info.Name.ID]; !had {
			fresh = append(fresh, info)
		}
	}
	if p.step = nil; len(p.noted) == 0 { // later there are few, and something else goes on
		p.reads(report.Listing, fresh)
	}
	damaged = make(map[string]error)
	err = p.each(ctx, fresh, func(info store.Info, seg *index.Segment) error {
		var n noted
		for _, id := range seg.Supersedes {
			if name := id.String(); listed[name] {
				n.supersedes = append(n.supersedes, name)
			}
		}
		n.condemned = slices.ContainsFunc(seg.Packs, func(s index.Pack) bool {
			_, bad := p.condemned[s.ID]
			return bad
		})
		p.noted[info.Name.ID] = n
		return nil
	}, func(info store.Info, err error) error {
		if !object.IsDamage(err) {
			return err
		}
		damaged[info.Name.ID] = err
		return nil
	})
	return damaged, err
}

// reads begins a step in which segments are read.
func (p *places) reads(phase report.Phase, segments []store.Info) {
	c := report.Course{Unit: "index files", Units: uint64(len(segments)), Exact: true}
	for _, info := range segments {
		c.Bytes += uint64(info.Size)
	}
	p.step = p.ledger.Step(phase, c)
}

// eachCondemned reads the segments that count and name packs which marks condemn, oldest first.
func (p *places) eachCondemned(ctx context.Context, visit func(store.Info, *index.Segment) error) error {
	return p.each(ctx, p.naming(), visit, func(_ store.Info, err error) error { return err })
}

// naming is the segments that count and name packs which marks condemn.
func (p *places) naming() (naming []store.Info) {
	for _, info := range p.segments {
		if n, had := p.noted[info.Name.ID]; n.condemned || !had {
			naming = append(naming, info)
		}
	}
	return naming
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
			p.step.Did(1, uint64(segments[i].Size))
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

func (p *places) listPacks(ctx context.Context) error {
	step := p.ledger.Step(report.Listing, report.Course{Unit: "packs"})
	for info, err := range p.r.Store().List(ctx, store.Pack) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			_, bad := p.condemned[id]
			p.packs = append(p.packs, packState{id: id, size: uint64(info.Size), condemned: bad})
			step.Did(1, uint64(info.Size))
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
func (p *places) enter(_ store.Info, seg *index.Segment) error {
	var main, spare batch
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
			spare.add(&seg.Packs[i], s)
		} else {
			main.add(&seg.Packs[i], s)
		}
	}
	return errors.Join(main.enter(p.main), spare.enter(p.spare))
}

// batch is packs that are entered together.
type batch struct {
	packs []index.Pack
	first []uint64 // number of the first blob of each
}

func (b *batch) add(p *index.Pack, s *packState) {
	b.packs, b.first = append(b.packs, *p), append(b.first, s.base)
}

func (b *batch) enter(x *hashcache.Numbered) error {
	if err := x.Merge(b.packs, b.first); err != nil {
		return fmt.Errorf("fill the temporary index: %w", err)
	}
	return nil
}

// number gives the blobs of a pack their numbers.
func (p *places) number(s *packState, t *pack.Table) {
	s.known, s.base = true, p.total
	for i := range t.Frames {
		s.blobs += uint32(len(t.Frames[i].Blobs))
		if t.Kind == pack.Trees {
			p.pages, p.pageBytes = p.pages+uint64(len(t.Frames[i].Blobs)), p.pageBytes+uint64(t.Frames[i].Raw)
		}
	}
	p.total += uint64(s.blobs)
}

// enterStrays reads the tables of the packs that no segment names: a writer is about to name them, was cut off, or a prune
// has taken them out of the index. One that cannot be read holds nothing that can be found.
func (p *places) enterStrays(ctx context.Context) error {
	var strays []int
	c := report.Course{Unit: "packs in no index", Exact: true}
	for i := range p.packs {
		if s := &p.packs[i]; !s.named {
			strays = append(strays, i)
			c.Units++
		}
	}
	step := p.ledger.Step(report.Listing, c)
	for _, i := range strays {
		s := &p.packs[i]
		step.Did(1, 0)
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
		var one batch
		one.add(&index.Pack{ID: s.id, Size: s.size, Table: t}, s)
		if err := one.enter(p.spare); err != nil {
			return err
		}
	}
	return nil
}

// place is where a blob lies, and the number of the blob.
type place struct {
	loc   hashcache.Loc
	spare bool
}

func (at *place) number() uint64 { return uint64(at.loc.Pack) }

// locate finds the places of blobs, and returns the first that is nowhere. found is room for as many answers.
func (p *places) locate(ids []format.ID, found []hashcache.Found, out []place) (missing *format.ID, err error) {
	if err := p.main.Lookup(ids, found); err != nil {
		return nil, fmt.Errorf("look up blobs: %w", err)
	}
	for i := range found {
		if found[i].OK {
			out[i] = place{found[i].Loc, false}
			continue
		}
		var one [1]hashcache.Found
		if err := p.spare.Lookup(ids[i:i+1], one[:]); err != nil {
			return nil, fmt.Errorf("look up blobs: %w", err)
		}
		if !one[0].OK {
			return &ids[i], nil
		}
		out[i] = place{one[0].Loc, true}
	}
	return nil, nil
}

// load reads a blob from its place.
func (p *places) load(ctx context.Context, id format.ID, at *place) ([]byte, error) {
	in := p.main
	if at.spare {
		in = p.spare
	}
	info, err := in.PackOf(at.loc.Pack)
	if err != nil {
		return nil, fmt.Errorf("look up pack: %w", err)
	}
	return p.r.LoadBlobAt(ctx, id, info, at.loc)
}
