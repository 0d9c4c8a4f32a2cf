package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// IndexResult is what a repair of the index found and did.
type IndexResult struct {
	DryRun   bool        `json:"dry_run,omitempty"`
	Packs    uint64      `json:"packs"`               // examined
	Segments uint64      `json:"index_files"`         // in use
	Damaged  uint64      `json:"index_files_damaged"` // unreadable of these
	Written  uint64      `json:"index_files_written"` // new
	Unnamed  uint64      `json:"packs_not_indexed"`   // missing from the index
	Wrong    uint64      `json:"packs_misindexed"`    // described wrongly
	Walked   uint64      `json:"packs_rescanned"`     // own table damaged, frames readable
	Lost     []format.ID `json:"damaged_packs"`       // lists
	Absent   []format.ID `json:"missing_packs"`
}

// OK reports whether there is nothing to repair.
func (r *IndexResult) OK() bool { return r.Damaged+r.Unnamed+r.Wrong == 0 }

// indexer is one repair of the index under way.
type indexer struct {
	r       *repo.Repository
	opt     repo.SessionOptions
	res     IndexResult
	files   []object.Info
	named   map[format.ID]naming // what the index says of packs
	bad     []format.ID          // segments to be replaced
	skip    map[format.ID]bool   // packs that marks name
	damaged map[format.ID]bool   // of these, the packs that are marked as missing or damaged
	marked  []index.Pack         // what the index says of damaged
	fresh   []format.ID          // missing packs that no mark names yet
	seg     index.Segment
	blobs   int
	session *repo.Session
}

// naming is what a segment says of a pack, in short.
type naming struct {
	size uint64
	sum  [32]byte
}

// Index compares the index with the packs and puts segments for what it lacks or has wrong. Segments that say something
// wrong, or cannot be read, are superseded by the last new one; the next prune removes them.
func Index(ctx context.Context, r *repo.Repository, opt repo.SessionOptions) (*IndexResult, error) {
	if opt.Note == nil {
		opt.Note = func(string) {}
	}
	x := &indexer{r: r, opt: opt}
	if err := x.survey(ctx, nil); err != nil {
		return nil, fmt.Errorf("repair index: %w", err)
	}
	if opt.DryRun {
		return &x.res, nil
	}
	// The packs that are missing are marked before anything else: nothing may be taken over from a snapshot that needs
	// them.
	if len(x.fresh) > 0 {
		packs, err := r.StillDamaged(ctx, x.fresh)
		if err == nil && len(packs) > 0 {
			_, err = r.RecordDamage(ctx, opt.Host, packs)
		}
		if err != nil {
			return nil, fmt.Errorf("repair index: %w", err)
		}
	}
	if x.res.OK() {
		return &x.res, nil
	}
	found := x.res
	before, err := indexFiles(ctx, r)
	if err != nil {
		return &found, fmt.Errorf("repair index: %w", err)
	}
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *repo.Session) error {
		if err := noPrune(ctx, s); err != nil {
			return err
		}
		x.session = s
		return x.survey(ctx, x.put)
	})
	after, listErr := indexFiles(ctx, r)
	for id := range after {
		if !before[id] {
			found.Written++
		}
	}
	if err = errors.Join(err, listErr); err != nil {
		return &found, fmt.Errorf("repair index: %w", err)
	}
	return &found, nil
}

// indexFiles returns all segments. Those that a session puts for damaged ones when it begins count as
// well.
func indexFiles(ctx context.Context, r *repo.Repository) (map[format.ID]bool, error) {
	files := make(map[format.ID]bool)
	for info, err := range object.Each(ctx, r.Store(), store.Index) {
		if err != nil {
			return nil, err
		}
		files[info.ID] = true
	}
	return files, nil
}

// survey reads the whole index and the table of each pack. put, if not nil, receives each pack that the index must name
// again, and nil at the end.
func (x *indexer) survey(ctx context.Context, put func(context.Context, *index.Pack) error) error {
	x.res = IndexResult{DryRun: x.opt.DryRun}
	x.named, x.bad, x.marked, x.fresh = make(map[format.ID]naming), nil, nil, nil
	all, err := marks.All(ctx, x.r.Store(), x.r.Keys())
	if err != nil {
		return err
	}
	x.skip, x.damaged = marks.UnusableBy(all), marks.DamagedPacks(all)
	doomed := marks.DoomedPacks(all)
	if err := eachSegment(ctx, x.r, x.enter); err != nil {
		return err
	}
	if x.files, err = object.List(ctx, x.r.Store(), store.Pack); err != nil {
		return err
	}
	x.res.Packs = uint64(len(x.files))
	if err := x.findAbsent(ctx); err != nil {
		return err
	}
	wrong := make(map[format.ID]bool)
	for _, f := range x.files {
		if _, named := x.named[f.ID]; doomed[f.ID] || x.damaged[f.ID] && named {
			continue // those that a bad segment names are carried below
		}
		p, err := x.pack(ctx, f, wrong)
		if err != nil {
			return err
		}
		if p != nil && put != nil {
			if err := put(ctx, p); err != nil {
				return err
			}
		}
	}
	if put == nil {
		return nil
	}
	// What else the segments name that are about to be replaced keeps its name.
	err = eachSegment(ctx, x.r, func(info object.Info, seg *index.Segment, err error) error {
		if err != nil || !slices.ContainsFunc(seg.Packs, func(p index.Pack) bool { return wrong[p.ID] }) {
			return nil
		}
		x.bad = append(x.bad, info.ID)
		for i := range seg.Packs {
			if p := &seg.Packs[i]; !wrong[p.ID] {
				if err := put(ctx, p); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return put(ctx, nil)
}

// enter records what a segment says.
func (x *indexer) enter(info object.Info, seg *index.Segment, err error) error {
	x.res.Segments++
	if err != nil {
		x.res.Damaged++
		x.bad = append(x.bad, info.ID)
		x.opt.Note(fmt.Sprintf("index segment %s: %v", info.ID.Short(), err))
		return nil
	}
	for i := range seg.Packs {
		p := &seg.Packs[i]
		if x.damaged[p.ID] {
			x.marked = append(x.marked, *p)
		}
		x.named[p.ID] = naming{p.Size, tableSum(&p.Table)}
	}
	return nil
}

func tableSum(t *pack.Table) [32]byte {
	head := append([]byte{byte(t.Kind)}, t.Salt[:]...)
	return blake3.Sum256(pack.AppendFrames(head, t.Frames))
}

// findAbsent finds the packs that are missing or have another size. A pack that is marked as damaged counts if one of
// its blobs is in no other pack.
func (x *indexer) findAbsent(ctx context.Context) error {
	for id := range x.named {
		if !x.skip[id] && !x.there(id) {
			x.fresh = append(x.fresh, id)
		}
	}
	x.res.Absent = slices.Clone(x.fresh)
	x.marked = slices.DeleteFunc(x.marked, func(p index.Pack) bool { return x.there(p.ID) })
	if len(x.marked) > 0 {
		elsewhere, err := x.storedAgain(ctx)
		if err != nil {
			return err
		}
		for i := range x.marked {
			p := &x.marked[i]
			if slices.ContainsFunc(p.Table.IDs(), func(id format.ID) bool { return !elsewhere[id] }) {
				x.res.Absent = append(x.res.Absent, p.ID)
			}
		}
	}
	slices.SortFunc(x.res.Absent, format.ID.Compare)
	x.res.Absent = slices.Compact(x.res.Absent)
	return nil
}

// there reports whether a pack is on the target with the size that the index names.
func (x *indexer) there(id format.ID) bool {
	i, found := slices.BinarySearchFunc(x.files, id, func(f object.Info, id format.ID) int { return f.ID.Compare(id) })
	return found && uint64(x.files[i].Size) == x.named[id].size
}

// storedAgain returns those blobs of the missing packs in marked that are also in a pack that no mark names.
func (x *indexer) storedAgain(ctx context.Context) (map[format.ID]bool, error) {
	elsewhere := make(map[format.ID]bool) // false: wanted
	for i := range x.marked {
		for _, id := range x.marked[i].Table.IDs() {
			elsewhere[id] = false
		}
	}
	err := eachSegment(ctx, x.r, func(_ object.Info, seg *index.Segment, err error) error {
		for i := 0; err == nil && i < len(seg.Packs); i++ {
			p := &seg.Packs[i]
			if x.skip[p.ID] || !x.there(p.ID) {
				continue
			}
			for _, id := range p.Table.IDs() {
				if _, wanted := elsewhere[id]; wanted {
					elsewhere[id] = true
				}
			}
		}
		return nil
	})
	return elsewhere, err
}

// pack compares a pack with what the index says of it, and returns it if the index must name it again.
func (x *indexer) pack(ctx context.Context, f object.Info, wrong map[format.ID]bool) (*index.Pack, error) {
	n, named := x.named[f.ID]
	if named && n.size != uint64(f.Size) {
		return nil, nil // absent
	}
	own, err := blobindex.ReadTable(ctx, x.r.Store(), x.r.Keys(), f.ID, f.Size)
	if err != nil {
		return nil, err
	}
	t, walked, lost := own.Table, own.Walked, own.Lost
	switch {
	case lost != nil:
		x.res.Lost = append(x.res.Lost, f.ID)
	case walked:
		x.res.Walked++
	}
	if named && (lost != nil || walked || tableSum(&t) == n.sum) {
		return nil, nil // the index knows as much as the pack does, or more
	}
	if len(t.Frames) == 0 {
		x.opt.Note(fmt.Sprintf("pack %s: nothing in it can be read: %v", f.ID, lost))
		return nil, nil
	}
	if named {
		x.res.Wrong++
		wrong[f.ID] = true
	} else {
		x.res.Unnamed++
	}
	return &index.Pack{ID: f.ID, Size: uint64(f.Size), Table: t}, nil
}

// put gathers packs into segments and stores these. The last one, for which it is called with nil, supersedes the bad
// ones: no pack is without a name before it has a new one.
func (x *indexer) put(ctx context.Context, p *index.Pack) error {
	if p != nil {
		x.seg.Packs = append(x.seg.Packs, *p)
		x.blobs += p.Table.Blobs()
		if len(x.seg.Packs) < session.SegmentPacks && x.blobs < session.SegmentBlobs {
			return nil
		}
	} else {
		slices.SortFunc(x.bad, format.ID.Compare)
		x.seg.Supersedes = slices.Compact(x.bad)
	}
	if len(x.seg.Packs)+len(x.seg.Supersedes) == 0 {
		return nil
	}
	if err := x.session.RenewOrFail(ctx); err != nil {
		return err
	}
	if _, _, err := object.PutSegment(ctx, x.r.Store(), x.r.Keys(), &x.seg, true); err != nil {
		return err
	}
	x.seg, x.blobs = index.Segment{}, 0
	return nil
}
