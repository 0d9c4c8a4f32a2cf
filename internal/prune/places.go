package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// packState is one pack on the target.
type packState struct {
	id     format.ID
	size   uint64
	base   uint64 // number of its first blob; the blobs of a pack are numbered in the order of its table
	nth    uint32 // by the time at which the target dates it, oldest first
	blobs  uint32
	known  bool // its table was read
	named  bool // by an index segment that counts
	doomed bool // by a mark
	repack bool // its live blobs are to be repacked
	unread bool // repacking failed
	live   uint64
	raw    uint64 // bytes of the live blobs
}

// The ranks of packs in the index of a prune. A blob that lies in packs of both counts in one that stays. Within a rank
// it counts in the pack that was stored first. A client can date its own packs, so that order prevents work, not loss:
// see prover.
const (
	rankIndexed = iota // named by the index, and by no mark
	rankOther          // the other existing packs
	ranks
)

// places is where each blob lies: one place for each blob, which is the one that counts.
type places struct {
	r      *repo.Repository
	reader *segmentReader
	packs  []packState // by ascending ID
	index  *reach.Index

	segments   []store.Info // those that count, oldest first
	superseded []store.Info // those that do not
	noted      map[string]noted
	first      int // how many were noted when the survey listed them
	doomed     map[format.ID]struct{}
	ledger     *report.Ledger
	step       *report.Step // that reads of segments count in; nil: none
	pages      uint64       // blobs of trees in all packs
	pageBytes  uint64       // theirs, before compression
	used       reach.Bitset // by number: a snapshot needs the blob at this place
}

// noted is what is kept of a segment that was read. The name of a segment is its hash, so its content never changes.
type noted struct {
	supersedes []string // names of listed segments
	doomed     bool     // it names a pack that a mark dooms
	weight     int      // see weigh
}

// openPlaces reads the index, the list of packs and the tables of packs that no segment names.
func openPlaces(ctx context.Context, k *segmentReader, l *report.Ledger, scratch string,
	doomed map[format.ID]struct{},
) (_ *places, err error) {
	r := k.r
	p := &places{r: r, reader: k, ledger: l, noted: make(map[string]noted), doomed: doomed}
	p.index = reach.NewIndex(func() (*blobindex.Temporary, error) { return r.TempIndex(scratch) }, ranks)
	p.index.Order = func(id format.ID) uint32 { return p.packs[p.find(id)].nth }
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	// The packs are listed after the index: a pack that a segment names was there before it.
	if err = p.list(ctx); err != nil {
		return nil, err
	}
	p.first = len(p.noted)
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
	for rank := range ranks { // sorts it, so that a lack of space shows here
		if _, err = p.index.Replaced(rank); err != nil {
			return nil, err
		}
	}
	p.used = reach.NewBitset(p.index.Blobs())
	return p, nil
}

func (p *places) close() error { return p.index.Close() }

// list lists the index segments and determines which count. A damaged segment that counts is an error, because the
// packs that it names are unknown.
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

// note reads the listed segments that were not read before, and returns the damaged ones. A damaged segment matters
// only if no other segment supersedes it.
func (p *places) note(ctx context.Context, all []store.Info) (damaged map[string]error, err error) {
	listed := make(map[string]bool, len(all))
	var fresh []store.Info
	for _, info := range all {
		listed[info.Name.ID] = true
		if _, had := p.noted[info.Name.ID]; !had {
			fresh = append(fresh, info)
		}
	}
	if p.step = nil; len(p.noted) == 0 { // later there are few, in the step of something else
		p.reads(report.Listing, fresh)
	}
	damaged = make(map[string]error)
	err = p.each(ctx, fresh, func(info store.Info, seg *index.Segment) error {
		n := noted{weight: weigh(seg.Packs)}
		for _, id := range seg.Supersedes {
			if name := id.String(); listed[name] {
				n.supersedes = append(n.supersedes, name)
			}
		}
		n.doomed = slices.ContainsFunc(seg.Packs, func(s index.Pack) bool {
			_, bad := p.doomed[s.ID]
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

// naming returns the segments that count and name doomed packs.
func (p *places) naming() (naming []store.Info) {
	for _, info := range p.segments {
		if n, had := p.noted[info.Name.ID]; n.doomed || !had {
			naming = append(naming, info)
		}
	}
	return naming
}

// eachSegment reads the segments that count, oldest first.
func (p *places) eachSegment(ctx context.Context, visit func(store.Info, *index.Segment) error) error {
	return p.each(ctx, p.segments, visit, func(_ store.Info, err error) error { return err })
}

// each reads segments in their order, a few ahead. If a segment cannot be read, unread returns nil to skip it, or an
// error that ends the prune.
func (p *places) each(ctx context.Context, segments []store.Info, visit func(store.Info, *index.Segment) error,
	unread func(store.Info, error) error,
) error {
	type read struct {
		seg *index.Segment
		err error
	}
	largest := int64(0)
	for _, info := range segments {
		largest = max(largest, info.Size)
	}
	err := object.InOrder(ctx, len(segments), object.Ahead(largest),
		func(ctx context.Context, i int) (read, error) {
			seg, err := p.reader.segment(ctx, segments[i])
			return read{seg, err}, nil
		},
		func(i int, r read) error {
			p.step.Did(1, uint64(segments[i].Size))
			switch {
			case errors.Is(r.err, store.ErrNotExist):
				return nil // another writer has superseded it, and the next listing shows the new one
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

func (p *places) listPacks(ctx context.Context) error {
	step := p.ledger.Step(report.Listing, report.Course{Unit: "packs"})
	var times []time.Time
	for info, err := range p.r.Store().List(ctx, store.Pack) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			_, bad := p.doomed[id]
			p.packs = append(p.packs, packState{id: id, size: uint64(info.Size), doomed: bad, nth: uint32(len(times))})
			times = append(times, info.Modified)
			step.Did(1, uint64(info.Size))
		}
	}
	slices.SortFunc(p.packs, func(a, b packState) int { return times[a.nth].Compare(times[b.nth]) })
	for i := range p.packs {
		p.packs[i].nth = uint32(i)
	}
	slices.SortFunc(p.packs, func(a, b packState) int { return a.id.Compare(b.id) })
	return nil
}

// find returns where in p.packs a pack is, or -1.
func (p *places) find(id format.ID) int {
	// No element is copied, since repackers write to elements at the same time.
	i, ok := sort.Find(len(p.packs), func(i int) int { return id.Compare(p.packs[i].id) })
	if !ok {
		return -1
	}
	return i
}

// enter adds those packs of a segment that exist in the size that the segment names.
func (p *places) enter(_ store.Info, seg *index.Segment) error {
	var byRank [ranks][]index.Pack
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
		rank := rankIndexed
		if s.doomed {
			rank = rankOther
		}
		s.known = true
		byRank[rank] = append(byRank[rank], seg.Packs[i])
	}
	return errors.Join(p.add(rankIndexed, byRank[rankIndexed]), p.add(rankOther, byRank[rankOther]))
}

// add adds packs to the index, and notes the numbers of their blobs.
func (p *places) add(rank int, packs []index.Pack) error {
	first, err := p.index.Add(rank, packs)
	if err != nil {
		return err
	}
	for i := range packs {
		t, s := &packs[i].Table, &p.packs[p.find(packs[i].ID)]
		s.known, s.base = true, first[i]
		for j := range t.Frames {
			s.blobs += uint32(len(t.Frames[j].Blobs))
			if t.Kind == pack.Trees {
				p.pages, p.pageBytes = p.pages+uint64(len(t.Frames[j].Blobs)), p.pageBytes+uint64(t.Frames[j].Raw)
			}
		}
	}
	return nil
}

// enterStrays reads the tables of the packs that no segment names: a writer is about to name them, a writer was cut
// off, or a prune removed them from the index. A pack whose table cannot be read is skipped.
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
		t, err := pack.OpenTable(p.r.Keys(), s.id, int64(s.size), func(off int64, b []byte) error {
			return object.ReadAt(ctx, p.r.Store(), name, off, b)
		})
		switch {
		case errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("pack %s: %w", s.id, err)
		}
		if err := p.add(rankOther, []index.Pack{{ID: s.id, Size: s.size, Table: t}}); err != nil {
			return err
		}
	}
	return nil
}
