// This file sorts the chunks of a restore so that each frame is read and opened once, in the order of the packs,
// and splits them into reads for several workers.

package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Chunk is one chunk of one file.
type Chunk[T any] struct {
	ID  format.ID // zero: nothing to read
	At  index.Loc // zero (not a valid frame): unknown
	Len uint32
	Off uint64 // in the file
	To  T      // the caller's
}

// Inline reports whether p needs no read, since its content is in the tree.
func (p *Chunk[T]) Inline() bool { return p.ID.IsZero() }

// PackRead is the work of one worker: neighbouring frames of one pack, or inline chunks.
type PackRead[T any] struct {
	Pack   uint32
	Spans  []repo.Span  // none: inline chunks
	Chunks [][]Chunk[T] // by span
}

// Bounds for one read, in bytes of sealed frames: large enough for sequential disk access, small enough to keep all
// workers busy.
const (
	minReadBytes = 256 << 10
	maxReadBytes = 2 << 20
)

// MaxInline is the maximum number of inline chunks in one PackRead.
const MaxInline = 512

// maxLookup is the number of chunks per index lookup.
const maxLookup = 16 << 10

// Locate fills in the locations. Chunks that are not in the repository keep the zero location.
func Locate[T any](ctx context.Context, r *repo.Repository, pieces []Chunk[T]) error {
	ids := make([]format.ID, 0, min(len(pieces), maxLookup))
	found := make([]index.Found, cap(ids))
	for len(pieces) > 0 {
		n := min(len(pieces), maxLookup)
		ids = ids[:0]
		for i := range pieces[:n] {
			if !pieces[i].Inline() {
				ids = append(ids, pieces[i].ID)
			}
		}
		if err := r.Locate(ctx, ids, found[:len(ids)]); err != nil {
			return fmt.Errorf("look up chunks: %w", err)
		}
		next := found
		for i := range pieces[:n] {
			if p := &pieces[i]; !p.Inline() {
				if next[0].OK {
					p.At = next[0].Loc
				}
				next = next[1:]
			}
		}
		pieces = pieces[n:]
	}
	return nil
}

// Arrange sorts chunks by location, in place. Inline chunks go with the preceding chunk, or with the first located one,
// so that directories are filled in order. Chunks without a location are passed to lost and dropped.
func Arrange[T any](pieces []Chunk[T], lost func(*Chunk[T])) []Chunk[T] {
	all := pieces[:0]
	at, leading := index.Loc{}, 0
	for i := range pieces {
		p := pieces[i]
		switch {
		case p.Inline():
			p.At = at
			if at == (index.Loc{}) {
				leading++
			}
		case p.At == index.Loc{}:
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
	Sort(all)
	return all
}

// Sort sorts chunks by location. Chunks of the same blob become adjacent.
func Sort[T any](all []Chunk[T]) {
	slices.SortFunc(all, func(a, b Chunk[T]) int {
		return cmp.Or(cmp.Compare(a.At.Pack, b.At.Pack), cmp.Compare(a.At.Offset, b.At.Offset),
			cmp.Compare(a.At.Skip, b.At.Skip))
	})
}

// Defer removes chunks from all, which are sorted, and passes them to put: those of sparsely used frames in which every
// chunk may wait. It returns the others, sorted, in the same memory. Inline chunks stay.
func Defer[T any](all []Chunk[T], mayWait func(*Chunk[T]) bool, put func(Chunk[T])) []Chunk[T] {
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
			if !p.Inline() {
				put(p)
				continue
			}
			p.At, loose = index.Loc{}, true
			kept = append(kept, p)
		}
	}
	if loose {
		Sort(kept)
	}
	return kept
}

// sparse reports whether the chunks of one frame may wait for others. They may if they need less than three quarters of
// its sealed size, which is nearly all of its content even where that does not compress.
func sparse[T any](pieces []Chunk[T], mayWait func(*Chunk[T]) bool) bool {
	much, wanted := uint64(pieces[0].At.Sealed)*3/4, uint64(0)
	known := format.ID{}
	for i := range pieces {
		p := &pieces[i]
		if p.Inline() {
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
func endOfFrame[T any](all []Chunk[T], i int) int {
	end := i + 1
	for end < len(all) && sameFrame(&all[end].At, &all[i].At) {
		end++
	}
	return end
}

func sameFrame(a, b *index.Loc) bool { return a.Pack == b.Pack && a.Offset == b.Offset }

// Split splits sorted chunks into reads, so that all workers are busy. A frame is in one read only.
func Split[T any](all []Chunk[T], workers int) []PackRead[T] {
	most := uint32(min(max(sealed(all)/uint64(2*max(workers, 1)), minReadBytes), maxReadBytes))
	var runs []PackRead[T]
	size := uint32(0)
	for i := 0; i < len(all); {
		at, end := all[i].At, endOfFrame(all, i)
		if at == (index.Loc{}) { // nothing to read
			end = min(i+MaxInline, end)
			runs = append(runs, PackRead[T]{Chunks: [][]Chunk[T]{all[i:end]}})
			i = end
			continue
		}
		if len(runs) == 0 || runs[len(runs)-1].Pack != at.Pack || size >= most || len(runs[len(runs)-1].Spans) == 0 {
			runs = append(runs, PackRead[T]{Pack: at.Pack})
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
func sealed[T any](all []Chunk[T]) (sum uint64) {
	for i := range all {
		if i == 0 || !sameFrame(&all[i].At, &all[i-1].At) {
			sum += uint64(all[i].At.Sealed)
		}
	}
	return sum
}
