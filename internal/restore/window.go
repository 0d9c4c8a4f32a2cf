package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// window is a part of the work that is planned as a whole: large enough that each frame is opened once, small enough to
// be held.
type window struct {
	pieces []piece
	files  int
}

// The bounds of a window: chunks at 56 bytes each, and files.
const (
	windowPieces = 32 << 10
	windowFiles  = 8 << 10
	// runBytes is how much of a pack one worker takes at once.
	runBytes = 4 << 20
)

// piece is one chunk of one file.
type piece struct {
	id   format.ID
	file *file
	off  uint64 // in the file
	len  uint32
}

func newWindow() *window { return &window{} }

func (w *window) full() bool {
	return len(w.pieces) >= windowPieces || w.files >= windowFiles
}

// add plans one chunk; a full window is shipped first.
func (w *walker) add(ctx context.Context, p piece) error {
	if w.window.full() {
		if err := w.ship(ctx); err != nil {
			return err
		}
	}
	w.window.pieces = append(w.window.pieces, p)
	return nil
}

// located is a piece and where its blob lies.
type located struct {
	*piece
	hashcache.Loc
}

// run is what a worker reads at once: neighbouring frames of one pack.
type run struct {
	pack   uint32
	spans  []repo.Span
	pieces [][]located // by span
}

// execute reads what the window needs and writes it.
func (j *job) execute(ctx context.Context, w *window, workers int) error {
	runs, err := j.locate(ctx, w)
	if err != nil {
		return err
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(workers, len(runs)) {
		group.Go(func() (err error) {
			defer func() { _ = j.ending(err) }()
			reader, err := j.repo.NewFrameReader()
			if err != nil {
				return err
			}
			wk := &worker{job: j, reader: reader, hasher: j.repo.Keys().Hasher(), clock: j.ledger.Worker("restorer")}
			defer wk.clock.Stop()
			for {
				i := int(next.Add(1)) - 1
				if i >= len(runs) {
					return nil
				}
				if err := wk.take(ctx, &runs[i]); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// locate looks up all chunks of the window and groups them by frame, in the order in which they lie in the packs.
func (j *job) locate(ctx context.Context, w *window) ([]run, error) {
	ids := make([]format.ID, len(w.pieces))
	for i := range w.pieces {
		ids[i] = w.pieces[i].id
	}
	found := make([]hashcache.Found, len(ids))
	if err := j.repo.Locate(ctx, ids, found); err != nil {
		return nil, fmt.Errorf("look up chunks: %w", err)
	}
	all := make([]located, 0, len(ids))
	for i := range found {
		p := &w.pieces[i]
		if !found[i].OK {
			j.fail(p.file, fmt.Errorf("chunk %s: %w", p.id, errLost))
			j.part(p.file)
			continue
		}
		all = append(all, located{p, found[i].Loc})
	}
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.Pack, b.Pack), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Skip, b.Skip))
	})
	return split(all), nil
}

// split cuts sorted pieces into runs.
func split(all []located) []run {
	var runs []run
	size := uint32(0)
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Pack == all[i].Pack && all[end].Offset == all[i].Offset {
			end++
		}
		if len(runs) == 0 || runs[len(runs)-1].pack != all[i].Pack || size >= runBytes {
			runs = append(runs, run{pack: all[i].Pack})
			size = 0
		}
		r := &runs[len(runs)-1]
		r.spans = append(r.spans, repo.Span{Offset: all[i].Offset, Sealed: all[i].Sealed})
		r.pieces = append(r.pieces, all[i:end])
		size += all[i].Sealed
		i = end
	}
	return runs
}

// worker reads runs and writes their chunks.
type worker struct {
	*job
	reader *repo.FrameReader
	hasher *seal.Hasher
	clock  *report.Clock
}

func (w *worker) take(ctx context.Context, r *run) error {
	info, err := w.repo.PackInfo(r.pack)
	if err != nil {
		return err
	}
	w.clock.Enter(report.Unpack) // getting the bytes is booked by the store
	return w.reader.Read(w.clock.Within(ctx), info, r.spans, func(i int, raw []byte, _ []uint32, err error) error {
		pieces := r.pieces[i]
		w.clock.Current(func() string { return pieces[0].file.path })
		w.frame(ctx, pieces, raw, err)
		return context.Cause(ctx)
	})
}

// frame writes the chunks of one opened frame. Chunks of the same blob stand beside each other: it is hashed once.
func (w *worker) frame(ctx context.Context, pieces []located, raw []byte, err error) {
	var known format.ID
	var blob []byte
	var blobErr error
	for i := range pieces {
		p := &pieces[i]
		if i == 0 || p.id != known {
			known = p.id
			if blob, blobErr = w.blob(p, raw, err); blobErr != nil {
				blob, blobErr = w.another(ctx, p, blobErr)
			}
		}
		switch {
		case blobErr != nil:
			w.fail(p.file, fmt.Errorf("chunk %s: %w", p.id, blobErr))
		case !p.file.hopeless():
			w.clock.Enter(report.Write)
			w.write(p.file, blob, p.off)
		}
		w.clock.Enter(report.Attrs)
		w.part(p.file)
		w.clock.Enter(report.Unpack)
	}
}

// blob cuts one blob out of its frame and compares it with its ID.
func (w *worker) blob(p *located, raw []byte, err error) ([]byte, error) {
	end := uint64(p.Skip) + uint64(p.Loc.Len)
	switch {
	case err != nil:
		return nil, err
	case end > uint64(len(raw)) || p.Loc.Len != p.piece.len || w.hasher.ID(raw[p.Skip:end]) != p.id:
		return nil, errWrongBlob
	}
	return raw[p.Skip:end], nil
}

// another asks the repository, which also finds a blob that has moved to another pack meanwhile.
func (w *worker) another(ctx context.Context, p *located, first error) ([]byte, error) {
	blob, err := w.repo.LoadBlob(ctx, p.id)
	if err != nil || uint32(len(blob)) != p.piece.len {
		return nil, first
	}
	return blob, nil
}
