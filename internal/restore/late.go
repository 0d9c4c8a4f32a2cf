package restore

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/restore/order"
)

// late holds small files whose content lies in frames of which their window wants little: mostly copies of files that were
// restored long before. Opening a frame takes as long as making a hundred files, so such files wait until there are many
// of them, and those of several windows that lie in one frame are made when it is opened once.
//
// It belongs to the one who cuts windows.
type late struct {
	window *window      // being filled; nil: at the workers
	back   chan *window // where they leave it
}

func newLate() *late {
	back := make(chan *window, 1)
	return &late{window: &window{limit: maxLate, home: back}, back: back}
}

// wait waits until there is something to put files into.
func (l *late) wait(ctx context.Context) error {
	if l.window != nil {
		return nil
	}
	select {
	case l.window = <-l.back:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush hands out what waits.
func (l *late) flush(ctx context.Context, runs chan<- run, workers int) error {
	w := l.window
	l.window = nil
	for i := range w.pieces {
		w.pieces[i].To.small.dir.waits = false
	}
	order.Sort(w.pieces)
	return issue(ctx, order.Split(w.pieces, workers), w, runs)
}

// sift puts off what is to wait of sorted pieces, and returns the others. Chunks of large files do not wait: those are open
// until they have them all. What is put off is copied: the window that it came from will be used again.
func (l *late) sift(all []piece) []piece {
	return order.Sift(all, func(p *piece) bool { return p.To.small != nil }, l.add)
}

// add puts off one small file.
func (l *late) add(p piece) {
	w, s := l.window, p.To.small
	if !s.dir.waits {
		s.dir.waits = true
		w.weight += dirWeight
	}
	p.To.small = w.smalls.add(*s)
	w.pieces = append(w.pieces, p)
	w.weight += smallWeight + pieceWeight
}
