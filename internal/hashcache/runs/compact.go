package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// compact merges the newest runs while there are too many of one order of magnitude. Only neighbours in age are merged,
// because the newest place of a blob wins.
func (x *Index) compact() error {
	for {
		var runs []run
		err := x.db.View("list runs", func(tx *bolt.Tx) (err error) {
			runs, err = listRuns(tx, nil)
			return err
		})
		if err != nil {
			return err
		}
		runs = crowded(runs)
		if len(runs) == 0 {
			return nil
		}
		if err := x.mergeRuns(runs); err != nil {
			return err
		}
	}
}

// crowded returns the newest runs that together are ripe to become one, or none. From the oldest to the newest, orders
// of magnitude never rise: a long run that comes after short ones swallows them, and runsPerClass runs of one order
// become one of the next. So n blobs never lie in more than runsPerClass runs per order.
func crowded(runs []run) []run {
	if len(runs) == 0 {
		return nil
	}
	newest := len(runs) - 1
	first := newest
	for first > 0 && runs[first-1].class() < runs[newest].class() {
		first--
	}
	if first < newest {
		return runs[first:]
	}
	for end := len(runs); end > 0; end = first {
		class := runs[end-1].class()
		for first = end - 1; first > 0 && runs[first-1].class() == class; {
			first--
		}
		if end-first >= runsPerClass {
			return runs[first:]
		}
	}
	return nil
}

// mergeRuns puts one run in the place of several, in transactions of bounded size. A crash in between leaves runs that
// are not listed, which the next merge of runs removes.
func (x *Index) mergeRuns(runs []run) error {
	if err := x.removeUnlisted(); err != nil {
		return err
	}
	var w *runWriter
	var last *format.ID // copied so far
	for done := false; !done; {
		err := x.db.Update("merge runs of the cache", func(tx *bolt.Tx) (err error) {
			if w == nil {
				total := uint64(0)
				for i := range runs {
					total += runs[i].blobs
				}
				w, err = newRunWriter(tx, total)
			} else {
				err = w.enter(tx)
			}
			if err != nil {
				return err
			}
			if last, err = copyRuns(tx, runs, last, x.step, w); err != nil {
				return err
			}
			if done = last == nil; !done {
				return nil
			}
			if err := w.finish(); err != nil {
				return err
			}
			return unlist(tx, runs)
		})
		if err != nil {
			return err
		}
	}
	return x.removeUnlisted()
}

// copyRuns copies at most limit blobs that come after the given one, and returns the last, or nil at the end.
func copyRuns(tx *bolt.Tx, runs []run, after *format.ID, limit int, w *runWriter) (*format.ID, error) {
	heads := make([]*runReader, 0, len(runs))
	for i := range runs {
		r, err := newRunReader(tx, runs[i].number, after)
		if err != nil {
			return nil, err
		}
		if r.ok {
			heads = append(heads, r)
		}
	}
	var last format.ID
	for range limit {
		best := -1
		for i, r := range heads { // from the oldest to the newest: of equals, the last wins
			if r.ok && (best < 0 || r.id.Compare(heads[best].id) <= 0) {
				best = i
			}
		}
		if best < 0 {
			return nil, nil
		}
		last = heads[best].id
		if err := w.add(&last, &heads[best].loc); err != nil {
			return nil, err
		}
		for _, r := range heads {
			if r.ok && r.id == last {
				if err := r.next(); err != nil {
					return nil, err
				}
			}
		}
	}
	return &last, nil
}

// unlist takes runs out of the index. Nobody who begins now asks them.
func unlist(tx *bolt.Tx, runs []run) error {
	for i := range runs {
		if err := tx.Bucket([]byte(bucketRuns)).Delete(number(runs[i].number)); err != nil {
			return err
		}
	}
	return nil
}

// removeUnlisted removes the runs that were merged, and what an interrupted merge of runs left. To remove a run is to look
// at each of its pages. So each has a transaction of its own, after which the mapping of the file may be let go of: else
// at the end of a merge as much as was merged would be resident.
func (x *Index) removeUnlisted() error {
	for {
		left, found := uint32(0), false
		err := x.db.View("list runs", func(tx *bolt.Tx) error {
			listed := tx.Bucket([]byte(bucketRuns))
			cursor := tx.Bucket([]byte(bucketBlobs)).Cursor()
			for k, _ := wary.First(cursor); k != nil && !found; k, _ = cursor.Next() {
				if listed.Get(k) == nil {
					if len(k) != 4 {
						return fmt.Errorf("run: %w", ErrDamaged)
					}
					left, found = binary.BigEndian.Uint32(k), true
				}
			}
			return nil
		})
		if err != nil || !found {
			return err
		}
		err = x.db.Update("remove merged run of the cache", func(tx *bolt.Tx) error {
			for _, name := range [...]string{bucketFilters, bucketBlobs} {
				if err := tx.Bucket([]byte(name)).DeleteBucket(number(left)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// runReader reads a run from front to back.
type runReader struct {
	cursor *bolt.Cursor
	run    uint32
	block  block
	i      int // of the record in the block
	id     format.ID
	loc    Loc
	ok     bool // id and loc are set
}

// newRunReader stands at the first record after the given one.
func newRunReader(tx *bolt.Tx, n uint32, after *format.ID) (*runReader, error) {
	b, err := runBucket(tx, n)
	if err != nil {
		return nil, err
	}
	r := &runReader{cursor: b.Cursor(), run: n}
	if after == nil {
		_, v := wary.First(r.cursor)
		return r, r.enter(v)
	}
	_, v := r.cursor.Seek(after[:])
	if err := r.enter(v); err != nil {
		return nil, err
	}
	for r.ok && bytes.Compare(r.id[:], after[:]) <= 0 {
		if err := r.next(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// enter begins with a block, nil at the end.
func (r *runReader) enter(v []byte) (err error) {
	if r.ok = v != nil; !r.ok {
		return nil
	}
	if r.block, err = parseBlock(v, r.run); err != nil {
		return err
	}
	r.i = -1
	return r.next()
}

func (r *runReader) next() (err error) {
	if r.i++; r.i == r.block.len() {
		_, v := r.cursor.Next()
		return r.enter(v)
	}
	copy(r.id[:], r.block.id(r.i))
	r.loc, r.block.locs, err = takeLoc(r.block.locs)
	return err
}
