package census

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// question is the memory of one question, kept for the next.
type question struct {
	order []place
	block [blockSize]byte
	n     int // records in it
	held  int // which block it is
}

// Lookup finds out where blobs lie; out must be as long as ids.
func (x *Index) Lookup(ids []format.ID, out []runs.Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: room for %d answers", len(ids), len(out))
	}
	clear(out)
	if err := x.settle(); err != nil {
		return err
	}
	q := x.scratch.Get().(*question)
	defer x.scratch.Put(q)
	q.held, q.order = -1, q.order[:0]
	for i := range ids {
		q.order = append(q.order, place{headOf(ids[i][:]), uint32(i)})
	}
	slices.SortFunc(q.order, func(a, b place) int { return cmp.Compare(a.head, b.head) }) // neighbours share blocks
	for _, o := range q.order {
		// The ID may be in the last block that begins at or before it, or in one before that begins alike.
		for b := sort.Search(len(x.fences), func(i int) bool { return x.fences[i] > o.head }) - 1; b >= 0; b-- {
			if err := x.load(q, b); err != nil {
				return err
			}
			if loc, ok := q.find(&ids[o.at]); ok {
				out[o.at] = runs.Found{Loc: loc, OK: true}
				break
			}
			if x.fences[b] < o.head {
				break
			}
		}
	}
	return nil
}

// load reads a block.
func (x *Index) load(q *question, b int) error {
	if q.held == b {
		return nil
	}
	q.held, q.n = b, min(perBlock, x.count-b*perBlock)
	want := q.block[:q.n*recordSize]
	if n, err := x.file.ReadAt(want, x.base+int64(b)*blockSize); n < len(want) {
		q.held = -1
		return fmt.Errorf("read blob index: %w", err)
	}
	return nil
}

func (q *question) find(id *format.ID) (runs.Loc, bool) {
	low, high := 0, q.n
	for low < high {
		mid := (low + high) / 2
		r := q.block[mid*recordSize:][:recordSize]
		switch bytes.Compare(r[:format.IDSize], id[:]) {
		case 0:
			return decode(r), true
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return runs.Loc{}, false
}
