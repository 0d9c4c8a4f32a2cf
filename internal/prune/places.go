package prune

import (
	"context"
	"errors"
	"fmt"
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
	known  bool   // its table was read
	named  bool   // by an index segment that counts
	doomed bool   // by a mark
	live   uint32 // blobs that snapshots need
}

// The ranks of packs in the index of a prune. A blob that lies in packs of both counts in one that stays. Within a rank
// it counts in the pack that was stored first. A client can date its own packs, so that order prevents work, not loss:
// see prover.
const (
	rankIndexed = iota // named by the index, and by no mark
	rankOther          // the other existing packs
)

// places is where each blob lies: one place for each blob, which is the one that counts.
type places struct {
	r      *repo.Repository
	reader *object.Segments
	packs  []packState // by ascending ID
	index  *blobindex.Temporary

	segments  object.Standing
	noted     map[format.ID]noted // by segment
	first     int                 // how many were noted when the survey listed them
	doomed    map[format.ID]bool
	ledger    *report.Ledger
	step      *report.Step // that reads of segments count in; nil: none
	pages     uint64       // blobs of trees in all packs
	pageBytes uint64       // theirs, before compression
	used      reach.Bitset // by number: a snapshot needs the blob at this place
	sized     bool         // shares are wanted
	shares    []uint32     // by number: the part of a sealed frame that is the blob's, in bytes
}

// noted is what is kept of a segment that was read.
type noted struct {
	doomed bool // it names a pack that a mark dooms
	weight int  // see weigh
}

// kept is how many bytes of segments a prune keeps in memory: some 500,000 blobs. It passes through the segments up to
// seven times, and a far target then sends each of them once.
const kept = 16 << 20

func segmentReader(r *repo.Repository) *object.Segments {
	return &object.Segments{Store: r.Store(), Keys: r.Keys(), Ahead: true, Room: kept}
}

// openPlaces reads the index, the list of packs and the tables of packs that no segment names. With sized, shares are
// wanted.
func openPlaces(ctx context.Context, r *repo.Repository, k *object.Segments, l *report.Ledger, scratch string,
	doomed map[format.ID]bool, sized bool,
) (_ *places, err error) {
	p := &places{r: r, reader: k, ledger: l, noted: make(map[format.ID]noted), doomed: doomed, sized: sized}
	if p.index, err = p.r.Index().OpenTemporary(scratch); err != nil {
		return nil, err
	}
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
	p.reads(report.Listing, p.segments.Counting)
	if err = p.eachSegment(ctx, p.enter); err != nil {
		return nil, err
	}
	if err = p.enterStrays(ctx); err != nil {
		return nil, err
	}
	if _, err = p.index.Replaced(); err != nil { // sorts it, so that a lack of space shows here
		return nil, err
	}
	p.used = reach.NewBitset(p.index.Blobs())
	return p, nil
}

func (p *places) close() error { return p.index.Close() }

// list lists the index segments and determines which count. A damaged segment that counts is an error, because the
// packs that it names are unknown.
func (p *places) list(ctx context.Context) error {
	listed, err := object.List(ctx, p.r.Store(), store.Index)
	if err != nil {
		return err
	}
	if p.step = nil; len(p.noted) == 0 { // later there are few new ones, in the step of something else
		p.reads(report.Listing, listed)
	}
	if err := p.reader.Update(ctx, &p.segments, listed, p.note); err != nil {
		return err
	}
	for _, info := range p.segments.Counting {
		if err := p.segments.Bad[info.ID]; object.IsDamage(err) {
			return fmt.Errorf("read index: %w", err)
		}
	}
	return nil
}

// note notes what a segment that was not read before says.
func (p *places) note(info object.Info, seg *index.Segment, err error) error {
	p.step.Did(1, uint64(info.Size))
	switch {
	case object.IsDamage(err) || errors.Is(err, store.ErrNotExist):
		return nil // damage matters only if no other segment supersedes it
	case err != nil:
		return fmt.Errorf("read index: %w", err)
	}
	p.noted[info.ID] = noted{
		weight: weigh(seg.Packs),
		doomed: slices.ContainsFunc(seg.Packs, func(s index.Pack) bool { return p.doomed[s.ID] }),
	}
	return nil
}

// reads begins a step in which segments are read.
func (p *places) reads(phase report.Phase, segments []object.Info) {
	c := report.Course{Unit: "index files", Units: uint64(len(segments)), Exact: true}
	for _, info := range segments {
		c.Bytes += uint64(info.Size)
	}
	p.step = p.ledger.Step(phase, c)
}

// naming returns the segments that count and name doomed packs.
func (p *places) naming() (naming []object.Info) {
	for _, info := range p.segments.Counting {
		if n, had := p.noted[info.ID]; n.doomed || !had {
			naming = append(naming, info)
		}
	}
	return naming
}

// eachSegment reads the segments that count, oldest first.
func (p *places) eachSegment(ctx context.Context, visit func(object.Info, *index.Segment) error) error {
	return p.each(ctx, p.segments.Counting, visit)
}

// each reads segments in their order.
func (p *places) each(ctx context.Context, segments []object.Info,
	visit func(object.Info, *index.Segment) error,
) error {
	return p.reader.Each(ctx, segments, func(info object.Info, seg *index.Segment, err error) error {
		p.step.Did(1, uint64(info.Size))
		switch {
		case errors.Is(err, store.ErrNotExist):
			return nil // another writer has superseded it, and the next listing shows the new one
		case err != nil:
			return fmt.Errorf("read index: %w", err)
		}
		return visit(info, seg)
	})
}

func (p *places) listPacks(ctx context.Context) error {
	step := p.ledger.Step(report.Listing, report.Course{Unit: "packs"})
	var times []time.Time
	for info, err := range object.Each(ctx, p.r.Store(), store.Pack) {
		if err != nil {
			return err
		}
		p.packs = append(p.packs, packState{
			id: info.ID, size: uint64(info.Size), doomed: p.doomed[info.ID], nth: uint32(len(times)),
		})
		times = append(times, info.Modified)
		step.Did(1, uint64(info.Size))
	}
	slices.SortFunc(p.packs, func(a, b packState) int { return times[a.nth].Compare(times[b.nth]) })
	for i := range p.packs {
		p.packs[i].nth = uint32(i)
	}
	slices.SortFunc(p.packs, func(a, b packState) int { return a.id.Compare(b.id) })
	return nil
}

// find returns a pack, or nil if it does not exist.
func (p *places) find(id format.ID) *packState {
	i, ok := sort.Find(len(p.packs), func(i int) int { return id.Compare(p.packs[i].id) })
	if !ok {
		return nil
	}
	return &p.packs[i]
}

// enter adds those packs of a segment that exist in the size that the segment names.
func (p *places) enter(_ object.Info, seg *index.Segment) error {
	for i := range seg.Packs {
		s := p.find(seg.Packs[i].ID)
		if s == nil {
			continue
		}
		s.named = true
		if s.known || s.size != seg.Packs[i].Size {
			continue
		}
		rank := rankIndexed
		if s.doomed {
			rank = rankOther
		}
		if err := p.add(rank, s, &seg.Packs[i].Table); err != nil {
			return err
		}
	}
	return nil
}

// add adds a pack to the index, and notes the numbers of its blobs.
func (p *places) add(rank int, s *packState, t *pack.Table) (err error) {
	s.known = true
	s.base, err = p.index.Add(rank, s.nth, &index.Pack{ID: s.id, Size: s.size, Table: *t})
	for j := range t.Frames {
		s.blobs += uint32(len(t.Frames[j].Blobs))
		if p.sized {
			p.shares = appendShares(p.shares, &t.Frames[j])
		}
		if t.Kind == pack.Trees {
			p.pages, p.pageBytes = p.pages+uint64(len(t.Frames[j].Blobs)), p.pageBytes+uint64(t.Frames[j].Raw)
		}
	}
	return err
}

// appendShares divides the sealed bytes of a frame among its blobs by their lengths. The shares add up.
func appendShares(shares []uint32, f *pack.Frame) []uint32 {
	sum, given := uint64(0), uint64(0)
	for _, b := range f.Blobs {
		sum += uint64(b.Len)
		until := uint64(f.Sealed) * sum / max(uint64(f.Raw), 1)
		shares, given = append(shares, uint32(until-given)), until
	}
	return shares
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
		if err := p.add(rankOther, s, &t); err != nil {
			return err
		}
	}
	return nil
}
