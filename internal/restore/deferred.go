package restore

import (
	"context"
)

// deferred collects small files from frames that their batch needs little of: mostly copies of files that were restored
// earlier. Opening a frame takes as long as making a hundred small files. The files wait until there are many
// of them, so that one opening of a frame serves several batches.
//
// Only the goroutine of planReads uses it.
type deferred struct {
	batch    *batch      // being filled; nil while the workers have it
	freeList chan *batch // where the workers leave it
}

func newDeferred() *deferred {
	back := make(chan *batch, 1)
	return &deferred{batch: &batch{limit: maxDeferred, freeList: back}, freeList: back}
}

// awaitBatch waits until there is a batch to fill.
func (l *deferred) awaitBatch(ctx context.Context) error {
	if l.batch != nil {
		return nil
	}
	select {
	case l.batch = <-l.freeList:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush submits all deferred files.
func (l *deferred) flush(ctx context.Context, reads chan<- packRead, workers int) error {
	w := l.batch
	l.batch = nil
	for i := range w.chunks {
		w.chunks[i].To.small.dir.deferring = false
	}
	sortChunks(w.chunks)
	return submitReads(ctx, split(w.chunks, workers), w, reads)
}

// deferSmall removes the deferrable small files from sorted chunks and returns the others. Chunks of large files are
// never deferred, since these files stay open until all their chunks are written. Deferred entries are copied, because
// their batch is reused.
func (l *deferred) deferSmall(all []chunk) []chunk {
	return deferSparse(all, func(p *chunk) bool { return p.To.small != nil }, l.add)
}

// add defers one small file.
func (l *deferred) add(p chunk) {
	w, s := l.batch, p.To.small
	if !s.dir.deferring {
		s.dir.deferring = true
		w.cost += dirCost
	}
	p.To.small = w.smalls.add(*s)
	w.chunks = append(w.chunks, p)
	w.cost += smallCost + chunkCost
}
