package restore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// batch is a part of the work that is planned as a whole: large enough that most frames are opened once, and bounded in
// memory. A frame from which several batches need much is opened for each of them. Small files that need little of a
// frame are deferred (deferred.go); chunks of large files are not.
type batch struct {
	chunks []chunk
	smalls smallFiles
	cost   int // estimated memory in bytes
	limit  int // cost at which the batch is full

	readsLeft atomic.Int64  // pack reads that are not done yet
	freeList  chan<- *batch // takes the batch when all reads are done
}

// Sizes of batches. The first one is small, so that reading begins at once; each later one is larger.
const (
	batchCount  = 2 // one is planned while the other is read and written
	firstBatch  = 512 << 10
	batchGrowth = 4 // planning four objects takes less time than writing one
	maxBatch    = 10 << 20
	maxDeferred = 12 << 20 // deferred small files, in bytes

	// Memory of a planned object besides its chunks, in bytes, including what it refers to.
	fileCost = 700
	dirCost  = 600
)

// destination is the file that a chunk belongs to: one of the two.
type destination struct {
	file  *file
	small *small
}

const chunkCost = 80

// path returns the file's path inside the snapshot.
func (o *destination) path() string {
	if o.small != nil {
		return o.small.path()
	}
	return o.file.path
}

func (w *batch) full() bool { return w.cost >= w.limit }

// reset empties the batch and drops its references.
func (w *batch) reset() {
	clear(w.chunks)
	w.chunks = w.chunks[:0]
	w.smalls.reset()
	w.cost = 0
}

// ensureBatch makes sure that w.batch has space, submitting a full batch and waiting for a free one.
func (w *walker) ensureBatch(ctx context.Context) error {
	if w.batch != nil && !w.batch.full() {
		return nil
	}
	defer w.clock.Enter(w.clock.Enter(report.WaitWrite))
	if err := w.submit(ctx); err != nil {
		return err
	}
	select {
	case w.batch = <-w.free:
		w.batch.limit = w.limit
		w.limit = min(batchGrowth*w.limit, maxBatch)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// submit hands the batch to the planner of reads.
func (w *walker) submit(ctx context.Context) error {
	if w.batch == nil {
		return nil
	}
	defer w.clock.Enter(w.clock.Enter(report.WaitWrite))
	select {
	case w.batches <- w.batch:
		w.batch = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addChunk plans the read of one chunk.
func (w *walker) addChunk(ctx context.Context, p chunk) error {
	if err := w.ensureBatch(ctx); err != nil {
		return err
	}
	w.batch.chunks = append(w.batch.chunks, p)
	w.batch.cost += chunkCost
	return nil
}

// planReads turns batches into pack reads.
func (j *job) planReads(ctx context.Context, batches <-chan *batch, reads chan<- packRead, workers int) error {
	put := newDeferred()
	for w := range batches {
		all, err := j.locateChunks(ctx, w)
		if err != nil {
			return err
		}
		if err := put.awaitBatch(ctx); err != nil {
			return err
		}
		if err := submitReads(ctx, split(put.deferSmall(all), workers), w, reads); err != nil {
			return err
		}
		if put.batch.full() {
			if err := put.flush(ctx, reads, workers); err != nil {
				return err
			}
		}
	}
	if put.batch == nil {
		return nil
	}
	return put.flush(ctx, reads, workers)
}

// submitReads hands the reads of a batch to the workers. After the last one the batch returns to its free list.
func submitReads(ctx context.Context, cut []packRead, w *batch, reads chan<- packRead) error {
	if len(cut) == 0 {
		w.done()
		return nil
	}
	w.readsLeft.Store(int64(len(cut)))
	for _, r := range cut {
		r.batch = w
		select {
		case reads <- r:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// done empties the batch and returns it to its free list, whose channel has space for all batches.
func (w *batch) done() {
	w.reset()
	w.freeList <- w
}

// locateChunks looks up all chunks of the batch and sorts them. Chunks that the repository does not have are failures.
func (j *job) locateChunks(ctx context.Context, w *batch) ([]chunk, error) {
	if err := locate(ctx, j.repo, w.chunks); err != nil {
		return nil, err
	}
	return arrange(w.chunks, func(p *chunk) { j.failChunk(p, fmt.Errorf("chunk %s: %w", p.ID, errLost)) }), nil
}
