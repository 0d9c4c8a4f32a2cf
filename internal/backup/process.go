package backup

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/save"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/tune"
)

// worker is one goroutine of the save stage: it stores pieces, the first of them as it is and the others on a thread
// for what computes. So a backup without changes takes no thread.
func (p *pipeline) worker(ctx context.Context) (err error) {
	clock := p.deps.ledger.Worker("worker")
	defer clock.Stop()
	c := p.save.NewChunker(clock)
	store := func(piece *read.Piece) error {
		defer p.memory.Buffers.Put(piece.Buf)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		defer clock.Enter(report.WaitRead)
		clock.Enter(report.Chunk)
		p.work.Add(int64(piece.Len) + int64(len(piece.Items))*tune.Object)
		return p.process(ctx, c, piece, clock)
	}
	clock.Enter(report.WaitRead)
	first, ok := next(p.pieces, &p.workers)
	if !ok {
		return nil
	}
	if err := store(first); err != nil {
		return err
	}
	p.par.compute(func(over func() bool) { err = receive(p.pieces, &p.workers, over, store) })
	return err
}

// process stores the chunks of a piece and returns them to the read stage.
func (p *pipeline) process(ctx context.Context, c *save.Chunker, piece *read.Piece, clock *report.Clock) error {
	c.Reset()
	c.At(piece.Cuts)
	for _, it := range piece.Items {
		if it.Chunked() {
			c.Cut(piece.Buf, it.Off, it.Off+it.Len, true)
		}
	}
	chunks, fresh, err := c.Store(piece.Buf)
	if err != nil {
		return err
	}
	if p.deps.growth != nil {
		piece.Directory().User.(*dirWork).fresh.Add(fresh)
	}
	clock.Enter(report.Encode)
	chunked, err := p.read.Stored(ctx, piece, chunks)
	p.deps.ledger.Objects.Deduplicated.Add(chunked)
	return err
}
