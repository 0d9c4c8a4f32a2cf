package index

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// compact merges the newest runs while there are too many of one order of magnitude. Only runs of adjacent age are
// merged, because the newest location of a blob counts.
func (x *sortedRuns) compact() error {
	for {
		var runs []run
		err := x.file.View("list runs", func(tx *bolt.Tx) (err error) {
			runs, err = listRuns(tx, nil)
			return err
		})
		if err != nil {
			return err
		}
		runs = mergeable(runs)
		if len(runs) == 0 {
			return nil
		}
		if err := x.mergeRuns(runs); err != nil {
			return err
		}
	}
}

// mergeable returns the newest runs that are to be merged into one, or none. From the oldest to the newest, orders of
// magnitude never rise: a long run after short ones absorbs them, and runsPerClass runs of one order become one of the
// next. So n blobs lie in at most runsPerClass runs per order.
func mergeable(runs []run) []run {
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

// mergeRuns replaces several runs by one, in transactions of bounded size. A crash in between leaves unlisted runs,
// which the next merge removes.
func (x *sortedRuns) mergeRuns(runs []run) error {
	if err := x.removeUnlisted(); err != nil {
		return err
	}
	var w *runWriter
	var last *format.ID // copied so far
	for done := false; !done; {
		err := x.file.Update("merge runs of the cache", func(tx *bolt.Tx) (err error) {
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

// copyRuns copies at most limit blobs after the given one, and returns the last, or nil at the end.
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
		for i, r := range heads { // from the oldest to the newest: of equal IDs, the last counts
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

// unlist removes runs from the index. Later lookups do not search them.
func unlist(tx *bolt.Tx, runs []run) error {
	for i := range runs {
		if err := cachefile.Bucket(tx, bucketRuns).Delete(cachefile.Number(runs[i].number)); err != nil {
			return err
		}
	}
	return nil
}

// removeUnlisted removes merged runs and the remains of an interrupted merge. Removing a run reads each of its pages,
// so each removal is a transaction of its own, after which the mapping is released. Otherwise all merged pages would be
// resident.
func (x *sortedRuns) removeUnlisted() error {
	for {
		left, found := uint32(0), false
		err := x.file.View("list runs", func(tx *bolt.Tx) error {
			listed := cachefile.Bucket(tx, bucketRuns)
			cursor := cachefile.Bucket(tx, bucketBlobs).Cursor()
			for k, _ := cachefile.First(cursor); k != nil && !found; k, _ = cursor.Next() {
				if listed.Get(k) == nil {
					if len(k) != 4 {
						return fmt.Errorf("run: %w", cachefile.ErrDamaged)
					}
					left, found = binary.BigEndian.Uint32(k), true
				}
			}
			return nil
		})
		if err != nil || !found {
			return err
		}
		err = x.file.Update("remove merged run of the cache", func(tx *bolt.Tx) error {
			for _, name := range [...]string{bucketFilters, bucketBlobs} {
				if err := cachefile.Bucket(tx, name).DeleteBucket(cachefile.Number(left)); err != nil {
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

// runReader reads a run sequentially.
type runReader struct {
	cursor *bolt.Cursor
	run    uint32
	block  block
	i      int // of the record in the block
	id     format.ID
	loc    Loc
	ok     bool // id and loc are set
}

// newRunReader returns a reader at the first record after the given one.
func newRunReader(tx *bolt.Tx, n uint32, after *format.ID) (*runReader, error) {
	b, err := runBucket(tx, n)
	if err != nil {
		return nil, err
	}
	r := &runReader{cursor: b.Cursor(), run: n}
	if after == nil {
		_, v := cachefile.First(r.cursor)
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

// enter begins a block; nil is the end.
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
