package restore

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// worker reads from packs and writes the chunks.
type worker struct {
	*job
	reader    *repo.FrameReader
	hasher    *seal.Hasher
	clock     *report.Clock
	node      tree.Node // reused for small files
	inline    []byte    // reused
	coalescer writeCoalescer
}

// runWorker does pack reads until there are no more. After the last read of a batch, the batch is free again.
func (j *job) runWorker(ctx context.Context, reader *repo.FrameReader, reads <-chan packRead) error {
	w := &worker{job: j, reader: reader, hasher: j.repo.Keys().Hasher(), clock: j.ledger.Worker("restorer")}
	defer w.clock.Stop()
	for {
		w.clock.Enter(report.WaitScan)
		select {
		case r, ok := <-reads:
			if !ok {
				return nil
			}
			if err := w.doRead(ctx, &r); err != nil {
				return err
			}
			if r.batch.readsLeft.Add(-1) == 0 {
				r.batch.done()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *worker) doRead(ctx context.Context, r *packRead) error {
	w.clock.Enter(report.Unpack) // the store accounts for reading
	if len(r.Spans) == 0 {
		w.clock.Current(r.Chunks[0][0].To.path)
		w.writeChunks(ctx, &frameSource{}, r.Chunks[0], nil)
		return context.Cause(ctx)
	}
	info := *r.Pack
	if gone := w.repo.Absent(info.ID); gone != nil {
		for i, at := range r.Spans {
			if err := w.writeFrame(ctx, &frameSource{info, at, gone}, r.Chunks[i], nil); err != nil {
				return err
			}
		}
		return nil
	}
	for spans, pieces := r.Spans, r.Chunks; len(spans) > 0; {
		n := w.damaged.intact(info.ID, spans)
		err := w.reader.Read(w.clock.Within(ctx), info, spans[:n], func(i int, raw []byte, _ []uint32, err error) error {
			return w.writeFrame(ctx, &frameSource{info, spans[i], err}, pieces[i], raw)
		})
		if err == nil && n < len(spans) {
			err = w.writeFrame(ctx, &frameSource{info, spans[n], w.damaged.cause(info.ID, spans[n])}, pieces[n], nil)
			n++
		}
		if err != nil {
			return err
		}
		spans, pieces = spans[n:], pieces[n:]
	}
	return nil
}

// frameSource is the frame that chunks come from.
type frameSource struct {
	pack  index.PackInfo
	at    repo.Span
	cause error // why the frame could not be opened
}

// writeFrame writes the chunks of a frame, unless from has the cause why it could not be opened. An unreachable
// repository ends the run; each further frame would wait as long.
func (w *worker) writeFrame(ctx context.Context, from *frameSource, pieces []chunk, raw []byte) error {
	err := from.cause
	if isUnreachable(err) {
		return explainUnreachable(err)
	}
	if err != nil {
		w.damaged.add(from.pack.ID, from.at, err)
	}
	w.clock.Current(pieces[0].To.path)
	w.writeChunks(ctx, from, pieces, raw)
	return context.Cause(ctx)
}

// writeChunks writes the chunks of one open frame. Chunks of the same blob are adjacent, so it is hashed once. Chunks
// of large files are coalesced.
func (w *worker) writeChunks(ctx context.Context, from *frameSource, pieces []chunk, raw []byte) {
	var known format.ID
	var blob []byte
	var blobErr error
	elsewhere := false // the blob is not in raw
	for i := range pieces {
		p := &pieces[i]
		if p.inline() {
			w.clock.Enter(report.Write)
			w.inline = append(w.inline[:0], p.To.small.inline...)
			w.makeSmall(p.To.small, w.inline)
			w.clock.Enter(report.Unpack)
			continue
		}
		if p.ID != known {
			known = p.ID
			blob, blobErr = w.verifiedBlob(p, raw, from.cause)
			if elsewhere = blobErr != nil; elsewhere {
				blob, blobErr = w.loadElsewhere(ctx, from, p, blobErr)
			}
		}
		switch {
		case blobErr != nil:
			w.failChunk(p, fmt.Errorf("chunk %s: %w", p.ID, blobErr))
		case p.To.small != nil:
			w.clock.Enter(report.Write)
			w.makeSmall(p.To.small, blob)
			w.clock.Enter(report.Unpack)
		case elsewhere:
			w.writeFile(p.To.file, blob, p.Off, 1)
		default:
			w.coalesce(p, raw)
		}
	}
	w.flushWrites(raw)
}

// coalesce postpones the write of a verified chunk of the frame raw until its neighbours are known.
func (w *worker) coalesce(p *chunk, raw []byte) {
	if from, n := uint64(p.At.Skip), uint64(p.Len); !w.coalescer.add(p.To.file, p.Off, from, n) {
		w.flushWrites(raw)
		w.coalescer.add(p.To.file, p.Off, from, n)
	}
}

// flushWrites writes the coalesced chunks of the frame raw.
func (w *worker) flushWrites(raw []byte) {
	w.coalescer.drain(func(s *coalescedWrite) { w.writeFile(s.file, raw[s.from:s.to], s.off, s.chunks) })
}

// writeFile writes bytes that stand for so many chunks of f, unless f has failed.
func (w *worker) writeFile(f *file, p []byte, off uint64, parts int64) {
	if !f.hasFailed() {
		w.clock.Enter(report.Write)
		w.write(f, p, off)
	}
	w.clock.Enter(report.Attrs)
	w.chunksDone(f, parts)
	w.clock.Enter(report.Unpack)
}

// verifiedBlob cuts a blob out of its frame and compares it with its ID.
func (w *worker) verifiedBlob(p *chunk, raw []byte, err error) ([]byte, error) {
	end := uint64(p.At.Skip) + uint64(p.At.Len)
	switch {
	case err != nil:
		return nil, err
	case end > uint64(len(raw)) || p.At.Len != p.Len || w.hasher.ID(raw[p.At.Skip:end]) != p.ID:
		return nil, errWrongBlob
	}
	return raw[p.At.Skip:end], nil
}

// loadElsewhere loads the blob from the repository, which also finds it after a move to another pack.
func (w *worker) loadElsewhere(ctx context.Context, from *frameSource, p *chunk, first error) (blob []byte, err error) {
	if from.cause != nil {
		blob, err = w.repo.LoadBlobBut(ctx, p.ID, from.pack, from.at, from.cause)
	}
	if from.cause == nil || err != nil && w.damaged.retryOnce(from.pack.ID, from.at) {
		if blob, err = w.repo.LoadBlob(ctx, p.ID); err == nil {
			w.damaged.forget(from.pack.ID, from.at) // a transient read error
		}
	}
	if err != nil || uint32(len(blob)) != p.Len {
		return nil, first
	}
	return blob, nil
}

// failChunk finishes a chunk that cannot be read.
func (j *job) failChunk(p *chunk, err error) {
	if p.To.small != nil {
		j.failSmall(p.To.small, err)
		return
	}
	j.failFile(p.To.file, err)
	j.chunkDone(p.To.file)
}
