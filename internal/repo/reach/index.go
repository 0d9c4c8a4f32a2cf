package reach

import (
	"errors"
	"fmt"
	"slices"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// Place is where a blob lies. The zero Place means that no pack holds it.
type Place struct {
	blobindex.Loc
	number uint32 // of the blob
	table  int8   // number of the table that has the blob, from 1
}

// Lost reports whether no pack holds the blob.
func (at *Place) Lost() bool { return at.table == 0 }

// Rank returns the rank under which the pack was added.
func (at *Place) Rank() int { return int(at.table) - 1 }

// Number returns the number of the blob, which is unique in the index.
func (at *Place) Number() uint64 { return uint64(at.number) }

// Index is a temporary blob index, filled from the target by the caller. Packs are added under ranks: a blob is looked
// up in the packs of rank 0 first, then in those of rank 1, and so on. Within a rank the pack of the lowest Order
// counts, and of equal ones the pack that was added last. All blobs of all ranks are numbered consecutively. The index
// lies in temporary files, because it may be larger than memory.
type Index struct {
	Order func(pack format.ID) uint32 // set before the first Add; nil: all packs are equal

	open   func() (*blobindex.Temporary, error)
	tables []*blobindex.Temporary // by rank; nil: nothing was added
	total  uint64
}

// NewIndex returns an empty index. open makes an empty temporary table; it is called once for each used rank.
func NewIndex(open func() (*blobindex.Temporary, error), ranks int) *Index {
	return &Index{open: open, tables: make([]*blobindex.Temporary, ranks)}
}

// Blobs returns how many numbers were assigned. All numbers are below it.
func (x *Index) Blobs() uint64 { return x.total }

// Add adds packs under a rank, and returns the number of the first blob of each. The blobs of a pack are numbered in
// the order of its table. All calls of Add come before the first Locate, from one goroutine.
func (x *Index) Add(rank int, packs []index.Pack) (first []uint64, err error) {
	if len(packs) == 0 {
		return nil, nil
	}
	if x.tables[rank] == nil {
		if x.tables[rank], err = x.open(); err != nil {
			return nil, fmt.Errorf("make the temporary index: %w", err)
		}
	}
	for i := range packs {
		first = append(first, x.total)
		for j := range packs[i].Table.Frames {
			x.total += uint64(len(packs[i].Table.Frames[j].Blobs))
		}
	}
	if err := x.tables[rank].Merge(packs, first, x.Order); err != nil {
		return nil, fmt.Errorf("fill the temporary index: %w", err)
	}
	return first, nil
}

// Close removes the temporary files. A second call does nothing.
func (x *Index) Close() error {
	var err error
	for rank, t := range x.tables {
		if t != nil {
			err = errors.Join(err, t.Close())
			x.tables[rank] = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove the temporary index: %w", err)
	}
	return nil
}

// Replaced returns how many further places the blobs of a rank have in that rank.
func (x *Index) Replaced(rank int) (uint64, error) {
	if x.tables[rank] == nil {
		return 0, nil
	}
	n, err := x.tables[rank].Replaced()
	if err != nil {
		return 0, fmt.Errorf("look up blobs: %w", err)
	}
	return n, nil
}

// Each visits each blob that has a place, once for each rank, with its number. Within a rank the IDs ascend.
func (x *Index) Each(visit func(id format.ID, number uint64) error) error {
	for _, t := range x.tables {
		if t == nil {
			continue
		}
		if err := t.Each(func(id format.ID, n uint32) error { return visit(id, uint64(n)) }); err != nil {
			return fmt.Errorf("read the temporary index: %w", err)
		}
	}
	return nil
}

// PackOf returns the pack in which a blob lies.
func (x *Index) PackOf(at *Place) (blobindex.PackInfo, error) {
	info, err := x.tables[at.Rank()].PackOf(at.number)
	if err != nil {
		return info, fmt.Errorf("look up pack: %w", err)
	}
	return info, nil
}

// Query holds the buffers of lookups. It belongs to one goroutine.
type Query struct {
	out   []Place
	ask   []format.ID
	at    []int // index in out of the answer to each ID in ask
	found []blobindex.Numbered
}

// Locate returns the places of blobs, valid until the next call with the same Query.
func (x *Index) Locate(q *Query, ids []format.ID) ([]Place, error) {
	q.out = slices.Grow(q.out[:0], len(ids))[:len(ids)]
	clear(q.out)
	for rank, t := range x.tables {
		if t == nil {
			continue
		}
		q.ask, q.at = q.ask[:0], q.at[:0]
		for i := range ids {
			if q.out[i].Lost() {
				q.ask, q.at = append(q.ask, ids[i]), append(q.at, i)
			}
		}
		if len(q.ask) == 0 {
			break
		}
		q.found = slices.Grow(q.found[:0], len(q.ask))[:len(q.ask)]
		if err := t.Lookup(q.ask, q.found); err != nil {
			return nil, fmt.Errorf("look up blobs: %w", err)
		}
		for j := range q.found {
			if q.found[j].OK {
				q.out[q.at[j]] = Place{q.found[j].Loc, q.found[j].Number, int8(rank + 1)}
			}
		}
	}
	return q.out, nil
}

// LocateOne returns the place of one blob.
func (x *Index) LocateOne(q *Query, id format.ID) (Place, error) {
	at, err := x.Locate(q, []format.ID{id})
	if err != nil {
		return Place{}, err
	}
	return at[0], nil
}
