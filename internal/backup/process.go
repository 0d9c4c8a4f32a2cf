package backup

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/backup/crew"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/tune"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// worker chunks, hashes and claims a piece at a time, and puts what is new into its own frame. What it needs for that
// is kept from piece to piece.
type worker struct {
	*pipeline
	hasher *seal.Hasher
	writer *repo.FrameWriter
	spans  []span
	ids    []format.ID
	fresh  []bool
}

// span is one chunk inside a piece's buffer.
type span struct{ off, end uint32 }

func (p *pipeline) process(ctx context.Context) error {
	clock := p.Ledger.Worker("worker")
	defer clock.Stop()
	w := &worker{pipeline: p, hasher: p.Repo.Keys().Hasher(), writer: p.writer()}
	clock.Enter(report.WaitRead)
	err := crew.Take(p.pieces, &p.workers, func(pc *piece) error {
		defer p.buffers.Put(pc.buf)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		defer clock.Enter(report.WaitRead)
		clock.Enter(report.Chunk)
		p.work.Add(int64(pc.n) + int64(len(pc.items))*tune.Object)
		return w.take(ctx, pc, clock)
	})
	if err != nil {
		return err
	}
	clock.Enter(report.Compress)
	return w.writer.Flush()
}

// take processes one piece.
func (w *worker) take(ctx context.Context, pc *piece, clock *report.Clock) error {
	w.spans = w.spans[:0]
	if pc.part != nil {
		from := uint32(0)
		for _, cut := range pc.cuts {
			w.spans = append(w.spans, span{from, cut})
			from = cut
		}
	} else {
		w.cutSmall(pc)
	}
	chunks, err := w.store(pc.buf, clock)
	if err != nil {
		return err
	}
	clock.Enter(report.Encode)
	if pc.part == nil {
		return w.giveSmall(ctx, pc, chunks)
	}
	whole, err := pc.part.deliver(pc.seq, chunks)
	if err != nil || !whole {
		return err
	}
	return w.assemble(ctx, pc.part)
}

// cutSmall finds the chunks of the small files of pc that are not kept inside their nodes.
func (w *worker) cutSmall(pc *piece) {
	for _, it := range pc.items {
		if it.len <= tree.MaxInline {
			continue
		}
		for off, end := it.off, it.off+it.len; off < end; {
			next := off + uint32(w.chunker.Next(pc.buf[off:end], true))
			w.spans = append(w.spans, span{off, next})
			off = next
		}
	}
}

// store hashes w.spans, and adds those that the repository lacks to the worker's frame.
func (w *worker) store(buf []byte, clock *report.Clock) ([]tree.Chunk, error) {
	var t report.Tally
	chunks := make([]tree.Chunk, len(w.spans))
	w.ids = w.ids[:0]
	for i, s := range w.spans {
		id := w.hasher.ID(buf[s.off:s.end])
		w.ids = append(w.ids, id)
		chunks[i] = tree.Chunk{ID: id, Len: uint64(s.end - s.off)}
		t.Bytes.BeforeDedup += chunks[i].Len
	}
	w.fresh = append(w.fresh[:0], make([]bool, len(w.ids))...)
	if err := w.Session.Claim(w.ids, w.fresh); err != nil {
		return nil, err
	}
	clock.Enter(report.Compress)
	for i, s := range w.spans {
		if !w.fresh[i] {
			t.Blobs.Known++
			continue
		}
		t.Blobs.New++
		t.Bytes.AfterDedup += uint64(s.end - s.off)
		if err := w.writer.Add(w.ids[i], buf[s.off:s.end]); err != nil {
			return nil, err
		}
	}
	t.Bytes.Processed = t.Bytes.AfterDedup
	w.Ledger.Add(&t)
	return chunks, nil
}

// giveSmall hands each small file its chunks and ends the batch.
func (w *worker) giveSmall(ctx context.Context, pc *piece, chunks []tree.Chunk) error {
	var t report.Tally
	var inline []byte
	for _, it := range pc.items {
		r := &pc.job.results[it.entry]
		switch {
		case it.len == 0:
		case it.len <= tree.MaxInline:
			if inline == nil {
				inline = make([]byte, 0, w.inlineBytes(pc))
			}
			from := len(inline)
			inline = append(inline, pc.buf[it.off:it.off+it.len]...)
			r.inline = inline[from:len(inline):len(inline)]
		default:
			n, left := 0, uint64(it.len)
			for left > 0 {
				left -= chunks[n].Len
				n++
			}
			r.chunks, chunks = chunks[:n:n], chunks[n:]
			t.Objects.Deduplicated++
		}
		if err := w.share(ctx, pc.job, it.entry); err != nil {
			return err
		}
	}
	w.Ledger.Add(&t)
	return w.done(ctx, pc.job)
}

func (w *worker) inlineBytes(pc *piece) (n int) {
	for _, it := range pc.items {
		if it.len <= tree.MaxInline {
			n += int(it.len)
		}
	}
	return n
}
