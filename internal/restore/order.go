// This file sorts the chunks of a restore so that each frame is read and opened once, in the order of the packs,
// and splits them into reads for several workers.

package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// chunk is one chunk of one file. For a small file it is the whole content; content that is stored in the tree needs no
// read.
type chunk struct {
	ID  format.ID   // zero: nothing to read
	At  index.Found // Pack is nil: unknown
	Len uint32
	Off uint64 // in the file
	To  destination
}

// inline reports whether p needs no read, since its content is in the tree.
func (p *chunk) inline() bool { return p.ID.IsZero() }

// packRead is what one worker does at once: it reads neighbouring frames of one pack, or writes inline chunks.
type packRead struct {
	batch  *batch
	Pack   *index.PackInfo
	Spans  []repo.Span // none: inline chunks
	Chunks [][]chunk   // by span
}

// Bounds for one read, in bytes of sealed frames: large enough for sequential disk access, small enough to keep all
// workers busy.
const (
	minReadBytes = 256 << 10
	maxReadBytes = 2 << 20
)

// maxInline is the maximum number of inline chunks in one PackRead.
const maxInline = 512

// maxLookup is the number of chunks per index lookup.
const maxLookup = 16 << 10

// locate fills in the locations. Chunks that are not in the repository keep the zero location.
func locate(ctx context.Context, r *repo.Repository, pieces []chunk) error {
	ids := make([]format.ID, 0, min(len(pieces), maxLookup))
	found := make([]index.Found, cap(ids))
	for part := range slices.Chunk(pieces, maxLookup) {
		ids = ids[:0]
		for i := range part {
			if !part[i].inline() {
				ids = append(ids, part[i].ID)
			}
		}
		if err := r.Locate(ctx, ids, found[:len(ids)]); err != nil {
			return fmt.Errorf("look up chunks: %w", err)
		}
		next := found
		for i := range part {
			if p := &part[i]; !p.inline() {
				p.At, next = next[0], next[1:]
			}
		}
	}
	return nil
}

// arrange sorts chunks by location, in place. Inline chunks go with the preceding chunk, or with the first located one,
// so that directories are filled in order. Chunks without a location are passed to lost and dropped.
func arrange(pieces []chunk, lost func(*chunk)) []chunk {
	all := pieces[:0]
	at, leading := index.Found{}, 0
	for i := range pieces {
		p := pieces[i]
		switch {
		case p.inline():
			p.At = at
			if at.Pack == nil {
				leading++
			}
		case p.At.Pack == nil:
			lost(&p)
			continue
		default:
			at = p.At
		}
		all = append(all, p)
	}
	if leading < len(all) {
		for i := range all[:leading] {
			all[i].At = all[leading].At
		}
	}
	sortChunks(all)
	return all
}

// sortChunks sorts chunks by location. Chunks of the same blob become adjacent.
func sortChunks(all []chunk) {
	slices.SortFunc(all, func(a, b chunk) int { return a.At.Compare(&b.At) })
}

// deferSparse removes chunks from all, which are sorted, and passes them to put: those of sparsely used frames in which
// every chunk may wait. It returns the others, sorted, in the same memory. Inline chunks stay.
func deferSparse(all []chunk, mayWait func(*chunk) bool, put func(chunk)) []chunk {
	kept, loose := all[:0], false
	for i := 0; i < len(all); {
		end := endOfFrame(all, i)
		if !sparse(all[i:end], mayWait) {
			kept = append(kept, all[i:end]...)
			i = end
			continue
		}
		for ; i < end; i++ {
			p := all[i]
			if !p.inline() {
				put(p)
				continue
			}
			p.At, loose = index.Found{}, true
			kept = append(kept, p)
		}
	}
	if loose {
		sortChunks(kept)
	}
	return kept
}

// sparse reports whether the chunks of one frame may wait for others. They may if they need less than three quarters of
// its sealed size, which is nearly all of its content even where that does not compress.
func sparse(pieces []chunk, mayWait func(*chunk) bool) bool {
	much, wanted := uint64(pieces[0].At.Sealed)*3/4, uint64(0)
	known := format.ID{}
	for i := range pieces {
		p := &pieces[i]
		if p.inline() {
			continue
		}
		if p.ID != known {
			known = p.ID
			wanted += uint64(p.Len)
		}
		if wanted >= much || !mayWait(p) {
			return false
		}
	}
	return wanted > 0
}

// endOfFrame returns the end of the chunks in the frame of all[i].
func endOfFrame(all []chunk, i int) int {
	end := i + 1
	for end < len(all) && all[end].At.SameFrame(&all[i].At) {
		end++
	}
	return end
}

// split splits sorted chunks into reads, so that all workers are busy. A frame is in one read only.
func split(all []chunk, workers int) []packRead {
	most := uint32(min(max(sealed(all)/uint64(2*max(workers, 1)), minReadBytes), maxReadBytes))
	var runs []packRead
	size := uint32(0)
	for i := 0; i < len(all); {
		at, end := &all[i].At, endOfFrame(all, i)
		if at.Pack == nil { // nothing to read
			end = min(i+maxInline, end)
			runs = append(runs, packRead{Chunks: [][]chunk{all[i:end]}})
			i = end
			continue
		}
		n := len(runs) - 1
		if n < 0 || len(runs[n].Spans) == 0 || runs[n].Pack.ID != at.Pack.ID || size >= most {
			runs = append(runs, packRead{Pack: at.Pack})
			size = 0
		}
		r := &runs[len(runs)-1]
		r.Spans = append(r.Spans, repo.Span{Offset: at.Offset, Sealed: at.Sealed})
		r.Chunks = append(r.Chunks, all[i:end])
		size += at.Sealed
		i = end
	}
	return runs
}

// sealed returns the total size of the frames of sorted chunks.
func sealed(all []chunk) (sum uint64) {
	for i := range all {
		if i == 0 || !all[i].At.SameFrame(&all[i-1].At) {
			sum += uint64(all[i].At.Sealed)
		}
	}
	return sum
}
