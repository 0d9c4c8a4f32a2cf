package restore

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
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
		w.pieces[i].small.dir.waits = false
	}
	sortPieces(w.pieces)
	return issue(ctx, split(w, w.pieces, workers), w, runs)
}

// sift moves what is to wait out of sorted pieces, and returns the others, sorted, in the same memory. What is put off is
// copied: the window that it came from will be used again.
func (l *late) sift(all []piece) []piece {
	kept, loose := all[:0], 0
	for i := 0; i < len(all); {
		end := frameEnd(all, i)
		if !sparse(all[i:end]) {
			kept = append(kept, all[i:end]...)
			i = end
			continue
		}
		for ; i < end; i++ {
			p := all[i]
			if p.isInline() {
				p.at = hashcache.Loc{}
				kept = append(kept, p)
				loose++
				continue
			}
			l.add(p)
		}
	}
	if loose > 0 {
		sortPieces(kept)
	}
	return kept
}

// add puts off one small file.
func (l *late) add(p piece) {
	w := l.window
	if !p.small.dir.waits {
		p.small.dir.waits = true
		w.weight += dirWeight
	}
	p.small = w.smalls.add(*p.small)
	w.pieces = append(w.pieces, p)
	w.weight += smallWeight + pieceWeight
}

// sparse reports whether fewer bytes of the frame in which all these pieces lie are wanted than it has in the pack, by
// small files only: others have chunks in other frames, and are open until they have them all.
func sparse(pieces []piece) bool {
	sealed, wanted := uint64(pieces[0].at.Sealed), uint64(0)
	for i := range pieces {
		p := &pieces[i]
		if p.small == nil {
			return false
		}
		if !p.isInline() && (i == 0 || pieces[i-1].id != p.id) {
			wanted += uint64(p.len)
		}
		if wanted >= sealed {
			return false
		}
	}
	return wanted > 0
}

// frameEnd returns where the pieces of the frame of all[i] end.
func frameEnd(all []piece, i int) int {
	end := i + 1
	for end < len(all) && all[end].at.Pack == all[i].at.Pack && all[end].at.Offset == all[i].at.Offset {
		end++
	}
	return end
}
