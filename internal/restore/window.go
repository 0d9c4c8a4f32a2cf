package restore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/order"
)

// window is a part of the work that is planned as a whole: large enough that each frame is opened once, small enough to
// be held. A frame that several windows need a lot of is opened for each of them; what little they need of others is put
// off (late.go). Chunks of large files are not, so a window is made as large as memory allows.
type window struct {
	pieces []piece
	smalls smalls
	weight int // bytes of memory that it takes, about
	limit  int // at which it is full

	runs atomic.Int64   // not done yet
	home chan<- *window // where it goes when they are
}

// The bounds of windows. The first is small, so that reading begins at once; each one after it is larger.
const (
	windows      = 2         // one is planned while the other is read and written
	firstWindow  = 512 << 10 // bytes
	windowGrowth = 4         // planning four objects takes less time than writing one
	maxWindow    = 10 << 20
	maxLate      = 12 << 20 // files that wait for others in the same frames

	// What a window holds beside its small files, in bytes with what hangs on it.
	fileWeight = 700
	dirWeight  = 600
)

// piece is one chunk of one file. Of a small file it is the whole content; if that lies in the tree, there is no chunk to
// be read.
type piece = order.Piece[owner]

// owner is the file that a piece belongs to.
type owner struct {
	file  *file
	small *small // instead of file
}

const pieceWeight = 80

// path is that of the file inside the snapshot.
func (o *owner) path() string {
	if o.small != nil {
		return o.small.path()
	}
	return o.file.path
}

func (w *window) full() bool { return w.weight >= w.limit }

// reset makes it an empty window again. What it pointed to goes.
func (w *window) reset() {
	clear(w.pieces)
	w.pieces = w.pieces[:0]
	w.smalls.reset()
	w.weight = 0
}

// room waits for a window with room in it.
func (w *walker) room(ctx context.Context) error {
	if w.window != nil && !w.window.full() {
		return nil
	}
	defer w.clock.Enter(w.clock.Enter(report.WaitWrite))
	if err := w.ship(ctx); err != nil {
		return err
	}
	select {
	case w.window = <-w.free:
		w.window.limit = w.limit
		w.limit = min(windowGrowth*w.limit, maxWindow)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ship passes the window on.
func (w *walker) ship(ctx context.Context) error {
	if w.window == nil {
		return nil
	}
	defer w.clock.Enter(w.clock.Enter(report.WaitWrite))
	select {
	case w.windows <- w.window:
		w.window = nil
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add plans one chunk; a full window is shipped first.
func (w *walker) add(ctx context.Context, p piece) error {
	if err := w.room(ctx); err != nil {
		return err
	}
	w.window.pieces = append(w.window.pieces, p)
	w.window.weight += pieceWeight
	return nil
}

// run is what a worker does at once.
type run struct {
	window *window
	order.Run[owner]
}

// dispatch cuts windows into runs.
func (j *job) dispatch(ctx context.Context, windows <-chan *window, runs chan<- run, workers int) error {
	put := newLate()
	for w := range windows {
		all, err := j.locate(ctx, w)
		if err != nil {
			return err
		}
		if err := put.wait(ctx); err != nil {
			return err
		}
		if err := issue(ctx, order.Split(put.sift(all), workers), w, runs); err != nil {
			return err
		}
		if put.window.full() {
			if err := put.flush(ctx, runs, workers); err != nil {
				return err
			}
		}
	}
	if put.window == nil {
		return nil
	}
	return put.flush(ctx, runs, workers)
}

// issue hands out the runs of a window. When the last one is done, the window goes home.
func issue(ctx context.Context, cut []order.Run[owner], w *window, runs chan<- run) error {
	if len(cut) == 0 {
		w.done()
		return nil
	}
	w.runs.Store(int64(len(cut)))
	for _, r := range cut {
		select {
		case runs <- run{w, r}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// done empties the window for the next use. There is room for all of them at home.
func (w *window) done() {
	w.reset()
	w.home <- w
}

// locate looks up all chunks of the window and arranges them. What is nowhere has failed, and is left out.
func (j *job) locate(ctx context.Context, w *window) ([]piece, error) {
	if err := order.Locate(ctx, j.repo, w.pieces); err != nil {
		return nil, err
	}
	return order.Arrange(w.pieces, func(p *piece) { j.failPiece(p, fmt.Errorf("chunk %s: %w", p.ID, errLost)) }), nil
}
