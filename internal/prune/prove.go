package prune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// prover decides which packs can be removed. A table only says which blobs a pack holds, and every machine with the
// keys can write any table: in a pack of its own, and for any pack in an index segment. So the pack's own table is
// read, and each blob in it that a snapshot needs is read where it counts. Packs that this prune stored are an
// exception.
type prover struct {
	p       *pruner
	v       *survey
	wrote   map[format.ID]bool // packs that this prune stored
	damaged map[format.ID]bool // packs that marks name as damaged

	mu   sync.Mutex
	kept map[format.ID]bool  // packs that cannot be removed
	bad  map[format.ID]error // packs that do not hold what they are said to, and why
}

// mustStay returns those of the packs that cannot be removed, because the other copy of a blob is bad. It marks the
// packs with bad copies as damaged.
func (p *pruner) mustStay(ctx context.Context, v *survey, packs []*packState) (kept map[format.ID]bool, err error) {
	w := &prover{
		p: p, v: v, wrote: p.s.Wrote(), damaged: marks.DamagedPacks(v.marks),
		kept: make(map[format.ID]bool), bad: make(map[format.ID]error),
	}
	if len(packs) == 0 {
		return nil, nil
	}
	step := p.opt.Ledger.Step(report.Planning, report.Course{Unit: "packs", Units: uint64(len(packs)), Exact: true})
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(object.SmallAtOnce)
	for _, s := range packs {
		if running.Err() != nil {
			break
		}
		g.Go(func() error {
			defer step.Did(1, 0)
			return w.pack(running, s)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return w.kept, w.report(ctx)
}

// report notes and marks the packs with bad copies.
func (w *prover) report(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(w.bad), format.ID.Compare)
	for _, id := range ids {
		if !w.p.bad[id] {
			w.p.opt.Note(fmt.Sprintf("pack %s does not hold what it is said to, and is marked as damaged: %v", id.Short(),
				w.bad[id]))
		}
		w.p.bad[id] = true
	}
	if len(ids) == 0 || w.p.opt.DryRun {
		return nil
	}
	if _, err := w.p.r.RecordDamage(ctx, w.p.opt.Host, ids); err != nil {
		return fmt.Errorf("record damaged packs: %w", err)
	}
	return nil
}

// double is a blob that a snapshot needs and that two packs are said to hold.
type double struct {
	id         format.ID
	own, other index.Found // in the pack that is to go, and where the blob counts
}

// pack decides about one pack.
func (w *prover) pack(ctx context.Context, s *packState) error {
	damaged := w.damaged[s.id]
	own, err := index.ReadTable(ctx, w.p.r.Store(), w.p.r.Keys(), s.id, int64(s.size))
	switch {
	case err != nil && ends(ctx, err):
		return err
	case err != nil && !damaged: // the next survey tries once more
		w.doubt(s.id, err)
		w.keep(s.id)
		return nil
	case err != nil:
		return nil
	}
	doubles, err := w.doubles(s, &own.Table)
	if err != nil {
		return err
	}
	// If this pack is the later one or marked as damaged, it may be the bad one. It is read first then, since what it
	// does not hold cannot be lost with it.
	var ask, left []double
	for _, d := range doubles {
		if at := w.v.find(d.other.Pack.ID); damaged || at != nil && at.nth < s.nth {
			ask = append(ask, d)
		} else {
			left = append(left, d)
		}
	}
	hasher := w.p.r.Keys().Hasher()
	err = w.read(ctx, hasher, ask, func(d *double) *index.Found { return &d.own }, func(d *double, why error) {
		if why != nil {
			w.doubt(s.id, why)
		}
		if why == nil || !damaged && !object.IsDamage(why) && !errors.Is(why, store.ErrNotExist) {
			left = append(left, *d)
		}
	})
	if err != nil {
		return err
	}
	return w.read(ctx, hasher, left, func(d *double) *index.Found { return &d.other }, func(d *double, why error) {
		if why != nil {
			w.doubt(d.other.Pack.ID, why)
			w.keep(s.id)
		}
	})
}

// keep records that a pack must stay.
func (w *prover) keep(id format.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[id] = true
}

// doubt records that a pack is bad.
func (w *prover) doubt(id format.ID, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad[id] = why
}

// ends reports whether the error of a read ends the prune, because it says nothing about the pack.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrTemporary) ||
		errors.Is(err, store.ErrDenied)
}

// doubles returns the needed blobs of a pack, by its own table, that count in other packs.
func (w *prover) doubles(s *packState, t *pack.Table) (doubles []double, err error) {
	found, err := w.v.index.Locate(nil, t.IDs())
	if err != nil {
		return nil, err
	}
	self := index.PackInfo{ID: s.id, Salt: t.Salt, Size: s.size}
	n := 0
	err = index.EachBlob(t, func(id format.ID, mine index.Loc) error {
		at := &found[n]
		n++
		if at.Lost() || !w.v.used.Has(at.Number()) {
			return nil
		}
		there, err := w.v.index.Found(at)
		if err == nil && there.Pack.ID != s.id && !w.wrote[there.Pack.ID] {
			doubles = append(doubles, double{id, index.Found{Loc: mine, Pack: &self}, there})
		}
		return err
	})
	return doubles, err
}

// read reads one copy of each blob from the target, each frame once, and visits it with the reason why it is bad.
func (w *prover) read(ctx context.Context, h *seal.Hasher, doubles []double, of func(*double) *index.Found,
	visit func(d *double, why error),
) error {
	slices.SortFunc(doubles, func(a, b double) int { return of(&a).Compare(of(&b)) })
	var raw []byte
	var failed error
	for i := range doubles {
		d := &doubles[i]
		at := of(d)
		if i == 0 || !of(&doubles[i-1]).SameFrame(at) {
			raw, _, failed = w.p.r.ReadFrame(ctx, *at.Pack, at.Offset, at.Sealed)
			if failed != nil && ends(ctx, failed) {
				return failed
			}
		}
		why := failed
		end := uint64(at.Skip) + uint64(at.Len)
		if why == nil && (end > uint64(len(raw)) || h.ID(raw[at.Skip:end]) != d.id) {
			why = fmt.Errorf("frame at %d does not hold blob %s: %w", at.Offset, d.id.Short(), format.ErrCorrupt)
		}
		visit(d, why)
	}
	return nil
}

// withoutDoubted removes from a plan the packs that must stay. Otherwise their mark would make every writer store again
// what they hold. Unless blobs have several places, only a false segment can cause that, and the sweep decides alone.
// It also removes the bad packs: the next survey finds them marked, and counts other copies.
func (p *pruner) withoutDoubted(ctx context.Context, v *survey, plan plan) (plan, error) {
	if replaced, err := v.index.Replaced(); replaced == 0 || err != nil {
		return plan, err
	}
	var packs []*packState
	for _, t := range slices.Concat(plan.remove, plan.repack) {
		packs = append(packs, t.packState)
	}
	kept, err := p.mustStay(ctx, v, packs)
	return plan.without(func(id format.ID) bool { return p.bad[id] || kept[id] }), err
}
