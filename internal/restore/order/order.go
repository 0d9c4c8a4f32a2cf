// Package order arranges the chunks that a restore wants so that each frame is read and opened once, in the order in which
// frames lie in the packs, and cuts them into runs that workers do side by side.
//
// It refuses to know where chunks go to, how they are read, and what is in them.
package order

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Piece is one chunk that is wanted in one place.
type Piece[T any] struct {
	ID  format.ID     // zero: nothing is read
	At  hashcache.Loc // zero, at which no frame can be: not known
	Len uint32        // bytes
	Off uint64        // in the file, bytes
	To  T             // whose chunk it is
}

// Inline reports whether nothing is read for p: what it stands for lies in the tree.
func (p *Piece[T]) Inline() bool { return p.ID.IsZero() }

// Run is what a worker does at once: neighbouring frames of one pack, or pieces for which nothing is read.
type Run[T any] struct {
	Pack   uint32
	Spans  []repo.Span  // none: nothing is read
	Pieces [][]Piece[T] // by span
}

// What a worker reads from a pack at once, in bytes of sealed frames: large enough that a disk streams, and small enough
// that there is work for everybody.
const (
	minRunBytes = 256 << 10
	maxRunBytes = 2 << 20
)

// InlineAtOnce is how many pieces are in a run for which nothing is read, at most.
const InlineAtOnce = 512

// lookUpAtOnce is how many chunks are looked up together.
const lookUpAtOnce = 16 << 10

// Locate fills in where chunks lie. What is not found keeps the zero place.
func Locate[T any](ctx context.Context, r *repo.Repository, pieces []Piece[T]) error {
	ids := make([]format.ID, 0, min(len(pieces), lookUpAtOnce))
	found := make([]hashcache.Found, cap(ids))
	for len(pieces) > 0 {
		n := min(len(pieces), lookUpAtOnce)
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

// Arrange sorts pieces in the order in which they lie in the packs, in place. What need not be read goes with the piece
// before it, or with the first that is read, so that directories are filled in order. What is nowhere is left out, and
// told to lost.
func Arrange[T any](pieces []Piece[T], lost func(*Piece[T])) []Piece[T] {
	all := pieces[:0]
	at, leading := hashcache.Loc{}, 0
	for i := range pieces {
		p := pieces[i]
		switch {
		case p.Inline():
			p.At = at
			if at == (hashcache.Loc{}) {
				leading++
			}
		case p.At == hashcache.Loc{}:
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

// Sort sorts pieces by where they lie. Chunks of the same blob come to stand beside each other.
func Sort[T any](all []Piece[T]) {
	slices.SortFunc(all, func(a, b Piece[T]) int {
		return cmp.Or(cmp.Compare(a.At.Pack, b.At.Pack), cmp.Compare(a.At.Offset, b.At.Offset), cmp.Compare(a.At.Skip, b.At.Skip))
	})
}

// Sift takes pieces out of all, which are sorted, and gives them to put: those of frames from which little is wanted beside
// what they take in the pack, if every piece there may wait. Pieces for which nothing is read stay. It returns what
// stays, sorted, in the same memory.
func Sift[T any](all []Piece[T], mayWait func(*Piece[T]) bool, put func(Piece[T])) []Piece[T] {
	kept, loose := all[:0], false
	for i := 0; i < len(all); {
		end := frameEnd(all, i)
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
			p.At, loose = hashcache.Loc{}, true
			kept = append(kept, p)
		}
	}
	if loose {
		Sort(kept)
	}
	return kept
}

// sparse reports whether the frame in which all these pieces lie can wait for others that want more of it. Less than three
// quarters of its size in the pack is little even of content that cannot be compressed, all of which is a bit less than that
// size.
func sparse[T any](pieces []Piece[T], mayWait func(*Piece[T]) bool) bool {
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

// frameEnd returns where the pieces end that lie in the frame of all[i].
func frameEnd[T any](all []Piece[T], i int) int {
	end := i + 1
	for end < len(all) && sameFrame(&all[end].At, &all[i].At) {
		end++
	}
	return end
}

func sameFrame(a, b *hashcache.Loc) bool { return a.Pack == b.Pack && a.Offset == b.Offset }

// Split cuts sorted pieces into runs, so that there is something for each worker. No frame is in two runs.
func Split[T any](all []Piece[T], workers int) []Run[T] {
	most := uint32(min(max(sealed(all)/uint64(2*max(workers, 1)), minRunBytes), maxRunBytes))
	var runs []Run[T]
	size := uint32(0)
	for i := 0; i < len(all); {
		at, end := all[i].At, frameEnd(all, i)
		if at == (hashcache.Loc{}) { // nothing is read
			end = min(i+InlineAtOnce, end)
			runs = append(runs, Run[T]{Pieces: [][]Piece[T]{all[i:end]}})
			i = end
			continue
		}
		if len(runs) == 0 || runs[len(runs)-1].Pack != at.Pack || size >= most || len(runs[len(runs)-1].Spans) == 0 {
			runs = append(runs, Run[T]{Pack: at.Pack})
			size = 0
		}
		r := &runs[len(runs)-1]
		r.Spans = append(r.Spans, repo.Span{Offset: at.Offset, Sealed: at.Sealed})
		r.Pieces = append(r.Pieces, all[i:end])
		size += at.Sealed
		i = end
	}
	return runs
}

// sealed returns the size of all frames that sorted pieces lie in.
func sealed[T any](all []Piece[T]) (sum uint64) {
	for i := range all {
		if i == 0 || !sameFrame(&all[i].At, &all[i-1].At) {
			sum += uint64(all[i].At.Sealed)
		}
	}
	return sum
}
