package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// window is a part of the work that is planned as a whole: large enough that each frame is opened once, small enough to
// be held. A frame that several windows need is opened for each of them; where files are much alike, that is most of the
// frames before, so a window is made as large as memory allows.
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
	maxWindow    = 12 << 20
	maxLate      = 16 << 20 // files that wait for others in the same frames

	// What a window holds beside its small files, in bytes with what hangs on it.
	fileWeight = 700
	dirWeight  = 600

	// What a worker reads from a pack at once, in bytes: large enough that a disk streams, and small enough that there
	// is work for everybody.
	minRunBytes = 256 << 10
	maxRunBytes = 2 << 20

	lookUpAtOnce = 16 << 10 // chunks
	inlineAtOnce = 512      // files
)

// piece is one chunk of one file. Of a small file it is the whole content; if that lies in the tree, there is no chunk to
// be read, and the piece goes with its neighbour so that directories are filled in order.
type piece struct {
	id    format.ID // zero: nothing is read
	at    hashcache.Loc
	len   uint32
	off   uint64 // in the file
	file  *file
	small *small // instead of file
}

const pieceWeight = 80

// path is that of its file inside the snapshot.
func (p *piece) path() string {
	if p.small != nil {
		return p.small.path()
	}
	return p.file.path
}

func (p *piece) isInline() bool { return p.id.IsZero() }

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

// run is what a worker does at once: neighbouring frames of one pack, or files whose content is not in packs.
type run struct {
	window *window
	pack   uint32
	spans  []repo.Span // none: nothing is read
	pieces [][]piece   // by span
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
		if err := issue(ctx, split(w, put.sift(all), workers), w, runs); err != nil {
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
func issue(ctx context.Context, cut []run, w *window, runs chan<- run) error {
	if len(cut) == 0 {
		w.done()
		return nil
	}
	w.runs.Store(int64(len(cut)))
	for _, r := range cut {
		select {
		case runs <- r:
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
	if err := j.lookUp(ctx, w.pieces); err != nil {
		return nil, err
	}
	return arrange(w.pieces, func(p *piece) { j.failPiece(p, fmt.Errorf("chunk %s: %w", p.id, errLost)) }), nil
}

// arrange sorts pieces in the order in which they lie in the packs, in place. What need not be read goes with the piece
// before it, or with the first that is read.
func arrange(pieces []piece, lost func(*piece)) []piece {
	all := pieces[:0]
	at, leading := hashcache.Loc{}, 0
	for i := range pieces {
		p := pieces[i]
		switch {
		case p.isInline():
			p.at = at
			if at == (hashcache.Loc{}) {
				leading++
			}
		case p.at == hashcache.Loc{}:
			lost(&p)
			continue
		default:
			at = p.at
		}
		all = append(all, p)
	}
	if leading < len(all) {
		for i := range all[:leading] {
			all[i].at = all[leading].at
		}
	}
	sortPieces(all)
	return all
}

func sortPieces(all []piece) {
	slices.SortFunc(all, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.at.Pack, b.at.Pack), cmp.Compare(a.at.Offset, b.at.Offset), cmp.Compare(a.at.Skip, b.at.Skip))
	})
}

// lookUp fills in where the chunks lie. What is not found keeps the zero place, at which no frame can be.
func (j *job) lookUp(ctx context.Context, pieces []piece) error {
	ids := make([]format.ID, 0, min(len(pieces), lookUpAtOnce))
	found := make([]hashcache.Found, cap(ids))
	for len(pieces) > 0 {
		n := min(len(pieces), lookUpAtOnce)
		ids = ids[:0]
		for i := range pieces[:n] {
			if !pieces[i].isInline() {
				ids = append(ids, pieces[i].id)
			}
		}
		if err := j.repo.Locate(ctx, ids, found[:len(ids)]); err != nil {
			return fmt.Errorf("look up chunks: %w", err)
		}
		next := found
		for i := range pieces[:n] {
			if p := &pieces[i]; !p.isInline() {
				if next[0].OK {
					p.at = next[0].Loc
				}
				next = next[1:]
			}
		}
		pieces = pieces[n:]
	}
	return nil
}

// split cuts sorted pieces into runs, so that there is something for each worker.
func split(w *window, all []piece, workers int) []run {
	most := uint32(min(max(sealed(all)/uint64(2*max(workers, 1)), minRunBytes), maxRunBytes))
	var runs []run
	size := uint32(0)
	for i := 0; i < len(all); {
		at := all[i].at
		if at == (hashcache.Loc{}) { // files in the tree, without a neighbour that is read
			end := min(i+inlineAtOnce, frameEnd(all, i))
			runs = append(runs, run{window: w, pieces: [][]piece{all[i:end]}})
			i = end
			continue
		}
		end := frameEnd(all, i)
		if len(runs) == 0 || runs[len(runs)-1].pack != at.Pack || size >= most || len(runs[len(runs)-1].spans) == 0 {
			runs = append(runs, run{window: w, pack: at.Pack})
			size = 0
		}
		r := &runs[len(runs)-1]
		r.spans = append(r.spans, repo.Span{Offset: at.Offset, Sealed: at.Sealed})
		r.pieces = append(r.pieces, all[i:end])
		size += at.Sealed
		i = end
	}
	return runs
}

// sealed returns the size of all frames that sorted pieces lie in.
func sealed(all []piece) (sum uint64) {
	for i := range all {
		if i == 0 || all[i].at.Pack != all[i-1].at.Pack || all[i].at.Offset != all[i-1].at.Offset {
			sum += uint64(all[i].at.Sealed)
		}
	}
	return sum
}
