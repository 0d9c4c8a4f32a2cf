package copy

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// windowChunks is how many chunks are read together, so that each frame of the source is opened once for all of them.
// 32 Ki chunks take some 5 MiB of memory.
const windowChunks = 32 << 10

// window gathers chunks and copies them in the order of their locations in the packs of the source.
type window struct {
	t       *transfer
	workers chan *worker
	chunks  []tree.Chunk // wanted, in the order of the walk
	made    []format.ID  // their IDs in the destination

	order []int // of chunks by ID
	ids   []format.ID
	fresh []bool
	found []index.Found
}

// worker is the state of one goroutine.
type worker struct {
	reader   *repo.FrameReader
	from, to *seal.Hasher
	writer   *session.FrameWriter
	ids      []format.ID
	fresh    []bool
}

// piece is a chunk to be read.
type piece struct {
	at   index.Found
	id   format.ID
	made *format.ID // its entry in the result
}

func (w *window) open(t *transfer) {
	w.t = t
	n := t.c.opt.Parallel
	w.workers = make(chan *worker, n)
	for _, r := range t.c.from.NewFrameReaders(n, n) {
		w.workers <- &worker{reader: r, from: t.c.from.Keys().Hasher(), to: t.c.to.Keys().Hasher(),
			writer: t.s.Writer(pack.Data)}
	}
}

// want adds a chunk.
func (w *window) want(ctx context.Context, c tree.Chunk) error {
	if w.chunks = append(w.chunks, c); len(w.chunks) < windowChunks {
		return nil
	}
	return w.load(ctx)
}

// load copies the gathered chunks.
func (w *window) load(ctx context.Context) error {
	if len(w.chunks) == 0 {
		return nil
	}
	pieces, err := w.plan(ctx)
	if err != nil {
		return err
	}
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(cap(w.workers))
	for len(pieces) > 0 && reading.Err() == nil {
		n := 1
		for n < len(pieces) && pieces[n].at.SamePack(&pieces[0].at) {
			n++
		}
		part := pieces[:n]
		pieces = pieces[n:]
		g.Go(func() error {
			one := <-w.workers
			defer func() { w.workers <- one }()
			return w.t.readPack(reading, one, part)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return w.finish()
}

// plan returns each chunk to be read once, by location.
func (w *window) plan(ctx context.Context) ([]piece, error) {
	w.order, w.ids = w.order[:0], w.ids[:0]
	for i := range w.chunks {
		w.order = append(w.order, i)
	}
	slices.SortFunc(w.order, func(a, b int) int { return w.chunks[a].ID.Compare(w.chunks[b].ID) })
	for _, i := range w.order {
		if id := w.chunks[i].ID; len(w.ids) == 0 || w.ids[len(w.ids)-1] != id {
			w.ids = append(w.ids, id)
		}
	}
	if w.t.c.res.SameKey { // chunks that the destination has are not read
		w.fresh = slices.Grow(w.fresh[:0], len(w.ids))[:len(w.ids)]
		if err := w.t.s.Claim(w.ids, w.fresh); err != nil {
			return nil, toDestination(err)
		}
		n := 0
		for i, id := range w.ids {
			if w.fresh[i] {
				w.ids[n] = id
				n++
			}
		}
		w.ids = w.ids[:n]
	}
	w.made = slices.Grow(w.made[:0], len(w.ids))[:len(w.ids)]
	w.found = slices.Grow(w.found[:0], len(w.ids))[:len(w.ids)]
	clear(w.found)
	if err := w.t.c.from.Locate(ctx, w.ids, w.found); err != nil {
		return nil, err
	}
	pieces := make([]piece, len(w.ids))
	for i, id := range w.ids {
		if w.found[i].Pack == nil {
			return nil, &sideError{fmt.Errorf("blob %s is in no pack: %w", id.Short(), store.ErrNotExist), true}
		}
		pieces[i] = piece{w.found[i], id, &w.made[i]}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.at.Compare(&b.at) })
	return pieces, nil
}

// finish writes the new IDs in the order of the walk.
func (w *window) finish() error {
	defer func() { w.chunks = w.chunks[:0] }()
	if w.t.c.res.SameKey {
		return nil
	}
	all := make([]format.ID, len(w.chunks))
	n := -1
	for k, i := range w.order {
		if k == 0 || w.chunks[i].ID != w.chunks[w.order[k-1]].ID {
			n++
		}
		all[i] = w.made[n]
	}
	return w.t.note(all)
}

// readPack copies pieces of one pack.
func (t *transfer) readPack(ctx context.Context, one *worker, pieces []piece) error {
	info := *pieces[0].at.Pack
	var spans []repo.Span
	var frames [][]piece
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].at.SameFrame(&pieces[0].at) {
			n++
		}
		spans = append(spans, repo.Span{Offset: pieces[0].at.Offset, Sealed: pieces[0].at.Sealed})
		frames = append(frames, pieces[:n])
		pieces = pieces[n:]
	}
	return one.reader.Read(ctx, info, spans, func(i int, raw []byte, _ []uint32, err error) error {
		blobs := make([][]byte, len(frames[i]))
		for k, p := range frames[i] {
			end := uint64(p.at.Skip) + uint64(p.at.Len)
			if err == nil && end <= uint64(len(raw)) {
				blobs[k] = raw[p.at.Skip:end]
			}
			if blobs[k] == nil || one.from.ID(blobs[k]) != p.id {
				why := err
				if why == nil {
					why = fmt.Errorf("pack %s: frame at %d holds other bytes: %w", info.ID.Short(), p.at.Offset, format.ErrCorrupt)
				}
				var other error // another location, as a prune may have moved it
				if blobs[k], other = t.c.from.LoadBlobBut(ctx, p.id, info, spans[i], why); other != nil {
					return fromSource(ctx, other)
				}
			}
		}
		return t.store(one, frames[i], blobs)
	})
}

// store passes the blobs of a frame that the destination lacks to the session.
func (t *transfer) store(one *worker, pieces []piece, blobs [][]byte) error {
	one.ids = slices.Grow(one.ids[:0], len(blobs))[:len(blobs)]
	one.fresh = slices.Grow(one.fresh[:0], len(blobs))[:len(blobs)]
	for k := range blobs {
		if one.ids[k], one.fresh[k] = pieces[k].id, true; !t.c.res.SameKey {
			one.ids[k] = one.to.ID(blobs[k])
		}
		*pieces[k].made = one.ids[k]
	}
	if !t.c.res.SameKey { // with one key they are claimed already
		if err := t.s.Claim(one.ids, one.fresh); err != nil {
			return toDestination(err)
		}
	}
	for k := range blobs {
		if !one.fresh[k] {
			continue
		}
		if err := one.writer.Add(one.ids[k], blobs[k]); err != nil {
			return toDestination(err)
		}
	}
	return nil
}
