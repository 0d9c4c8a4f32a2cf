package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/stretch"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// worker reads runs and writes their chunks.
type worker struct {
	*job
	reader *repo.FrameReader
	hasher *seal.Hasher
	clock  *report.Clock
	node   tree.Node // scratch of the small file in hand
	inline []byte    // likewise
	joiner stretch.Joiner[*file]
}

// work takes runs until there are no more. A window whose last run is done is free again.
func (j *job) work(ctx context.Context, reader *repo.FrameReader, runs <-chan run) error {
	w := &worker{job: j, reader: reader, hasher: j.repo.Keys().Hasher(), clock: j.ledger.Worker("restorer")}
	defer w.clock.Stop()
	for {
		w.clock.Enter(report.WaitScan)
		select {
		case r, ok := <-runs:
			if !ok {
				return nil
			}
			if err := w.take(ctx, &r); err != nil {
				return err
			}
			if r.window.runs.Add(-1) == 0 {
				r.window.done()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *worker) take(ctx context.Context, r *run) error {
	w.clock.Enter(report.Unpack) // getting the bytes is booked by the store
	if len(r.Spans) == 0 {
		w.clock.Current(r.Pieces[0][0].To.path)
		w.frame(ctx, &source{}, r.Pieces[0], nil)
		return context.Cause(ctx)
	}
	info, err := w.repo.PackInfo(r.Pack)
	// A damaged local cache may name a pack that is none: then no frame can be read, and each chunk is looked for anew.
	if err != nil && !errors.Is(err, hashcache.ErrNoPack) {
		return err
	}
	if gone := w.repo.Absent(info.ID); gone != nil {
		for i, at := range r.Spans {
			if err := w.visit(ctx, &source{info, at, gone}, r.Pieces[i], nil); err != nil {
				return err
			}
		}
		return nil
	}
	for spans, pieces := r.Spans, r.Pieces; len(spans) > 0; {
		n := w.bad.Before(info.ID, spans)
		err := w.reader.Read(w.clock.Within(ctx), info, spans[:n], func(i int, raw []byte, _ []uint32, err error) error {
			return w.visit(ctx, &source{info, spans[i], err}, pieces[i], raw)
		})
		if err == nil && n < len(spans) {
			err = w.visit(ctx, &source{info, spans[n], w.bad.Why(info.ID, spans[n])}, pieces[n], nil)
			n++
		}
		if err != nil {
			return err
		}
		spans, pieces = spans[n:], pieces[n:]
	}
	return nil
}

// source is where chunks come from.
type source struct {
	pack hashcache.PackInfo
	at   repo.Span
	err  error // why the frame could not be opened
}

// visit writes the chunks of a frame that was opened, unless from says why it was not. A repository that cannot be reached
// ends the run: it would be waited for again with each frame.
func (w *worker) visit(ctx context.Context, from *source, pieces []piece, raw []byte) error {
	err := from.err
	if damage.Whole(err) {
		return damage.Explain(err)
	}
	if err != nil {
		w.bad.Add(from.pack.ID, from.at, err)
	}
	w.clock.Current(pieces[0].To.path)
	w.frame(ctx, from, pieces, raw)
	return context.Cause(ctx)
}

// frame writes the chunks of one opened frame, and what goes with them. Chunks of the same blob stand beside each other:
// it is hashed once. Those of large files are written when it is known which of them are neighbours.
func (w *worker) frame(ctx context.Context, from *source, pieces []piece, raw []byte) {
	var known format.ID
	var blob []byte
	var blobErr error
	elsewhere := false // the blob is no part of raw
	for i := range pieces {
		p := &pieces[i]
		if p.Inline() {
			w.clock.Enter(report.Write)
			w.inline = append(w.inline[:0], p.To.small.inline...)
			w.make(p.To.small, w.inline)
			w.clock.Enter(report.Unpack)
			continue
		}
		if p.ID != known {
			known = p.ID
			blob, blobErr = w.blob(p, raw, from.err)
			if elsewhere = blobErr != nil; elsewhere {
				blob, blobErr = w.another(ctx, from, p, blobErr)
			}
		}
		switch {
		case blobErr != nil:
			w.failPiece(p, fmt.Errorf("chunk %s: %w", p.ID, blobErr))
		case p.To.small != nil:
			w.clock.Enter(report.Write)
			w.make(p.To.small, blob)
			w.clock.Enter(report.Unpack)
		case elsewhere:
			w.put(p.To.file, blob, p.Off, 1)
		default:
			w.join(p, raw)
		}
	}
	w.flush(raw)
}

// join puts off a verified piece of the frame raw until it is known what can be written together with it.
func (w *worker) join(p *piece, raw []byte) {
	if from, n := uint64(p.At.Skip), uint64(p.Len); !w.joiner.Add(p.To.file, p.Off, from, n) {
		w.flush(raw)
		w.joiner.Add(p.To.file, p.Off, from, n)
	}
}

// flush writes what was joined of the frame raw.
func (w *worker) flush(raw []byte) {
	w.joiner.Drain(func(s *stretch.Stretch[*file]) { w.put(s.File, raw[s.From:s.To], s.Off, s.Parts) })
}

// put writes bytes that are as many parts of f, unless it has failed already.
func (w *worker) put(f *file, p []byte, off uint64, parts int64) {
	if !f.hopeless() {
		w.clock.Enter(report.Write)
		w.write(f, p, off)
	}
	w.clock.Enter(report.Attrs)
	w.parts(f, parts)
	w.clock.Enter(report.Unpack)
}

// blob cuts one blob out of its frame and compares it with its ID.
func (w *worker) blob(p *piece, raw []byte, err error) ([]byte, error) {
	end := uint64(p.At.Skip) + uint64(p.At.Len)
	switch {
	case err != nil:
		return nil, err
	case end > uint64(len(raw)) || p.At.Len != p.Len || w.hasher.ID(raw[p.At.Skip:end]) != p.ID:
		return nil, errWrongBlob
	}
	return raw[p.At.Skip:end], nil
}

// another asks the repository, which also finds a blob that has moved to another pack meanwhile.
func (w *worker) another(ctx context.Context, from *source, p *piece, first error) (blob []byte, err error) {
	if from.err != nil {
		blob, err = w.repo.LoadBlobBut(ctx, p.ID, from.pack, from.at, from.err)
	}
	if from.err == nil || err != nil && w.bad.Again(from.pack.ID, from.at) {
		if blob, err = w.repo.LoadBlob(ctx, p.ID); err == nil {
			w.bad.Forget(from.pack.ID, from.at) // it was the reading
		}
	}
	if err != nil || uint32(len(blob)) != p.Len {
		return nil, first
	}
	return blob, nil
}

// failPiece ends a piece whose content is not to be had.
func (j *job) failPiece(p *piece, err error) {
	if p.To.small != nil {
		j.lose(p.To.small, err)
		return
	}
	j.fail(p.To.file, err)
	j.part(p.To.file)
}
