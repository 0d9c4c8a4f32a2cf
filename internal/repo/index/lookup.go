package index

import (
	"bytes"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// lookup holds the buffers of one lookup, which the next one reuses.
type lookup struct {
	order []uint32 // indexes into ids, by ascending ID: neighbours share pages and blocks
	runs  []run
}

// lookup fills out, which must be as long as ids, from one consistent state.
func (x *sortedRuns) lookup(ids []format.ID, out []Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: space for %d results", len(ids), len(out))
	}
	clear(out)
	if len(ids) == 0 {
		return nil
	}
	filters, err := x.loadedFilters()
	if err != nil {
		return err
	}
	s := x.scratch.Get().(*lookup)
	defer x.scratch.Put(s)
	return x.file.View("look up blobs", func(tx *bolt.Tx) (err error) {
		if s.runs, err = listRuns(tx, s.runs[:0]); err != nil || len(s.runs) == 0 {
			return err
		}
		s.order = s.order[:0]
		for i := range ids {
			s.order = append(s.order, uint32(i))
		}
		slices.SortFunc(s.order, func(a, b uint32) int { return ids[a].Compare(ids[b]) })
		for i := len(s.runs) - 1; i >= 0 && len(s.order) > 0; i-- {
			if err := x.search(s, tx, s.runs[i].number, filters, ids, out); err != nil {
				return err
			}
		}
		return nil
	})
}

// search looks up the remaining IDs in one run and removes those it finds from the order.
func (x *sortedRuns) search(s *lookup, tx *bolt.Tx, n uint32, filters *filterSet, ids []format.ID, out []Found) error {
	filter := filters.of(n)
	var cursor *bolt.Cursor
	var key, value []byte // the block that the cursor stands on
	left := s.order[:0]
	for _, i := range s.order {
		id := &ids[i]
		if !filter.mayContain(id) {
			left = append(left, i)
			continue
		}
		if cursor == nil {
			b, err := runBucket(tx, n)
			if err != nil {
				return err
			}
			cursor = b.Cursor()
			key, value = cursor.Seek(id[:])
			x.file.Touched(tx)
		} else if key != nil && bytes.Compare(key, id[:]) < 0 {
			key, value = cursor.Seek(id[:])
			x.file.Touched(tx)
		}
		var err error
		if key != nil {
			if out[i], err = find(value, n, id); err != nil {
				return err
			}
		}
		if !out[i].OK {
			left = append(left, i)
		}
	}
	s.order = left
	return nil
}

// find searches a block of a run for an ID.
func find(value []byte, run uint32, id *format.ID) (Found, error) {
	b, err := parseBlock(value, run)
	if err != nil {
		return Found{}, err
	}
	low, high := 0, b.len()
	for low < high {
		mid := (low + high) / 2
		switch bytes.Compare(b.id(mid), id[:]) {
		case 0:
			rest, err := skipLocs(b.locs, mid)
			if err != nil {
				return Found{}, err
			}
			loc, _, err := takeLoc(rest)
			return Found{loc, err == nil}, err
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return Found{}, nil
}
