package prune

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// repack copies the live blobs of half-empty packs into new packs, each blob verified by its ID. The session stores
// them like those of a backup: a pack is verified on the target before an index segment names it. When repack returns,
// all of them are on the target. A pack that is partly unreadable, or that the index has stopped naming, stays: it is
// not among the returned ones.
func (p *pruner) repack(ctx context.Context, v *survey, packs []planned) (repacked []planned, err error) {
	if len(packs) == 0 {
		return nil, nil
	}
	c := report.Course{Unit: "packs", Exact: true, Units: uint64(len(packs))}
	chosen := make(map[format.ID]bool, len(packs))
	for _, t := range packs {
		c.Bytes += t.raw
		chosen[t.id] = true
	}
	step := p.opt.Ledger.Step(report.Repacking, c)
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(p.opt.Parallel)
	workers := make(chan *repacker, p.opt.Parallel) // idle repackers
	for range p.opt.Parallel {
		workers <- p.newRepacker(v, step)
	}
	err = v.tables(running, report.Repacking, func(s *packState, t *pack.Table) error {
		if !chosen[s.id] {
			return nil
		}
		g.Go(func() error {
			w := <-workers
			defer func() { workers <- w }()
			w.clock = p.opt.Ledger.Worker("repacker")
			defer w.clock.Stop()
			w.clock.Enter(report.Unpack)
			defer step.Did(1, 0)
			return w.pack(w.clock.Within(running), s, t)
		})
		return context.Cause(running)
	})
	if failed := g.Wait(); failed != nil {
		err = failed // the cause, where err is only the cancellation
	}
	if err != nil {
		return nil, err
	}
	p.opt.Ledger.Phase(report.Uploading)
	clock := p.opt.Ledger.Worker("repacker")
	defer clock.Stop()
	clock.Enter(report.Compress)
	done := make(map[format.ID]bool, len(packs))
	for range p.opt.Parallel {
		w := <-workers
		if err := errors.Join(w.data.Flush(), w.trees.Flush()); err != nil {
			return nil, err
		}
		p.res.Rewritten, p.res.Damaged = p.res.Rewritten+w.bytes, p.res.Damaged+w.unread
		for _, id := range w.done {
			done[id] = true
		}
	}
	if err := p.s.Flush(ctx); err != nil {
		return nil, err
	}
	for _, t := range packs {
		if done[t.id] {
			repacked = append(repacked, t)
			p.res.Repacked.Add(t.size)
		}
	}
	return repacked, nil
}

// repacker copies blobs in one goroutine.
type repacker struct {
	v           *survey
	step        *report.Step
	clock       *report.Clock // of the current pack
	note        func(string)
	reader      *repo.FrameReader
	hasher      *seal.Hasher
	data, trees *session.FrameWriter
	bytes       uint64
	done        []format.ID // packs whose live blobs have all been written
	unread      uint64      // packs that could not be read in whole
}

func (p *pruner) newRepacker(v *survey, step *report.Step) *repacker {
	return &repacker{
		v: v, step: step, note: p.opt.Note, reader: p.r.NewFrameReader(), hasher: p.r.Keys().Hasher(),
		data: p.s.Writer(pack.Data), trees: p.s.Writer(pack.Trees),
	}
}

// pack writes the live blobs of a pack.
func (w *repacker) pack(ctx context.Context, s *packState, t *pack.Table) error {
	var spans []repo.Span
	var frames []*pack.Frame
	var first []uint64 // number of the first blob of each of these frames
	n := s.base
	for j := range t.Frames {
		f := &t.Frames[j]
		if w.v.used.Count(n, uint32(len(f.Blobs))) > 0 {
			spans = append(spans, repo.Span{Offset: f.Offset, Sealed: f.Sealed})
			frames, first = append(frames, f), append(first, n)
		}
		n += uint64(len(f.Blobs))
	}
	to := w.data
	if t.Kind == pack.Trees {
		to = w.trees
	}
	info := index.PackInfo{ID: s.id, Salt: t.Salt, Size: s.size}
	var lost error
	err := w.reader.Read(ctx, info, spans, func(j int, raw []byte, _ []uint32, err error) error {
		if err == nil {
			defer w.clock.Enter(w.clock.Enter(report.Compress))
			err = w.frame(to, frames[j], first[j], raw)
		}
		if err != nil && (object.IsDamage(err) || errors.Is(err, store.ErrNotExist)) {
			lost, err = err, nil
		}
		return err
	})
	switch {
	case err == nil && lost == nil:
		w.done = append(w.done, s.id)
	case err == nil:
		w.unread++
		w.note(fmt.Sprintf("pack %s stays: %v", s.id.Short(), lost))
	}
	return err
}

// frame writes the live blobs of a frame.
func (w *repacker) frame(to *session.FrameWriter, f *pack.Frame, n uint64, raw []byte) error {
	for _, b := range f.Blobs {
		if uint64(len(raw)) < uint64(b.Len) {
			return fmt.Errorf("frame at %d is shorter than the index says: %w", f.Offset, format.ErrCorrupt)
		}
		blob := raw[:b.Len]
		raw = raw[b.Len:]
		live := w.v.used.Has(n)
		if n++; !live {
			continue
		}
		if w.hasher.ID(blob) != b.ID {
			return fmt.Errorf("frame at %d does not hold blob %s: %w", f.Offset, b.ID.Short(), format.ErrCorrupt)
		}
		if err := to.Add(b.ID, blob); err != nil {
			return err
		}
		w.bytes += uint64(b.Len)
		w.step.Did(0, uint64(b.Len))
	}
	return nil
}
