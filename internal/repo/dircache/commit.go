package dircache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// entriesPerCommit is how many entries one transaction writes at most, and bytesPerCommit how many bytes of values.
	// Together they take some 8 MiB of memory.
	entriesPerCommit = 16 << 10
	bytesPerCommit   = 4 << 20
	// fullBitmaps is how many of the newest live generations keep their whole bitmaps. Older ones lose the bits that a
	// newer generation repeats, so that bitmaps do not accumulate over hundreds of snapshots. Bits that only an old
	// generation has (a source that is backed up seldom) remain. If more than this many of the newest snapshots are
	// forgotten at once, some entries miss.
	fullBitmaps = 8
	// sweepSlack is how many entries may accumulate beyond twice the number that the last sweep left.
	sweepSlack = 100_000
)

// state is the bookkeeping of entries.
type state struct {
	next       Ref    // the next reference
	generation uint32 // the newest
	entries    uint64 // in the bucket, whether they count or not
	swept      uint64 // entries after the last sweep
}

const stateSize = 28

// readState reads the state, which a new file has. Starting from zero would assign generations and references twice.
func readState(tx *bolt.Tx) (s state, err error) {
	v := cachefile.Bucket(tx, bucketState).Get([]byte(stateName))
	v, ok := cachefile.Summed([]byte(stateName), v, stateSize)
	if !ok {
		return state{}, fmt.Errorf("state of directories: %w", cachefile.ErrDamaged)
	}
	s.next, s.generation = Ref(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint32(v[8:])
	s.entries, s.swept = binary.BigEndian.Uint64(v[12:]), binary.BigEndian.Uint64(v[20:])
	return s, nil
}

func (s *state) write(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(s.next))
	v = binary.BigEndian.AppendUint32(v, s.generation)
	v = binary.BigEndian.AppendUint64(v, s.entries)
	v = binary.BigEndian.AppendUint64(v, s.swept)
	return cachefile.PutSummed(cachefile.Bucket(tx, bucketState), []byte(stateName), v)
}

// commit writes a batch in transactions of bounded size. The last transaction records the generation. Until then the
// entries belong to an unknown generation and do not count.
type commit struct {
	c        *Cache
	snapshot format.ID
	source   *extsort.Merger
	kept     map[uint32][]byte
	note     []byte // nil: the old one stays

	state state
}

func (w *commit) run() error {
	first := true
	for done := false; !done; {
		err := w.c.Update("remember directories", func(tx *bolt.Tx) (err error) {
			if first {
				if w.state, err = readState(tx); err != nil {
					return err
				}
				w.state.generation++
				first = false
			}
			if done, err = w.copy(tx); err != nil {
				return err
			}
			if done {
				if err := w.finish(tx); err != nil {
					return err
				}
			}
			return w.state.write(tx)
		})
		if err != nil {
			return err
		}
	}
	if live := w.c.live.Load(); live != nil {
		snapshots := maps.Clone(live.snapshots)
		snapshots[w.snapshot] = true
		if err := w.c.readWriters(snapshots); err != nil {
			return err
		}
	}
	if w.state.entries > 2*w.state.swept+sweepSlack {
		return w.c.sweep()
	}
	return nil
}

// copy writes the next entries and reports whether they were the last.
func (w *commit) copy(tx *bolt.Tx) (done bool, err error) {
	dirs := cachefile.Bucket(tx, bucketDirs)
	dirs.FillPercent = 0.9
	for n, bytes := 0, 0; n < w.c.step && bytes < bytesPerCommit; n++ {
		key, value, ok, err := w.source.Next()
		if err != nil || !ok {
			return true, err
		}
		if dirs.Get(key) == nil {
			w.state.entries++
		}
		e := entry{writer: w.state.generation, ref: w.state.next, value: value}
		w.state.next++
		bytes += len(value)
		if err := dirs.Put(key, appendEntry(nil, key, &e)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// finish records the generation.
func (w *commit) finish(tx *bolt.Tx) error {
	if err := w.forgetWriters(tx); err != nil {
		return err
	}
	if err := w.thinBitmaps(tx); err != nil {
		return err
	}
	kept := cachefile.Bucket(tx, bucketKept)
	for chunk, bits := range w.kept {
		if err := cachefile.PutSummed(kept, keptKey(w.state.generation, chunk), bits); err != nil {
			return err
		}
	}
	if w.note != nil {
		if err := cachefile.PutValue(tx, noteName, w.note); err != nil {
			return err
		}
	}
	return cachefile.PutSummed(cachefile.Bucket(tx, bucketWriters), cachefile.Number(w.state.generation), w.snapshot[:])
}

// forgetWriters deletes generations whose snapshots are gone. A snapshot never returns: its name is the hash of its
// content, including the time.
func (w *commit) forgetWriters(tx *bolt.Tx) error {
	live := w.c.live.Load()
	if live == nil {
		return nil // unknown
	}
	writers, kept := cachefile.Bucket(tx, bucketWriters), cachefile.Bucket(tx, bucketKept)
	var gone [][]byte
	err := cachefile.Each(writers, func(k, v []byte) error {
		id, err := parseWriter(k, v)
		if !live.snapshots[id] {
			gone = append(gone, append([]byte(nil), k...))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range gone {
		if err := writers.Delete(k); err != nil {
			return err
		}
		if err := deletePrefix(kept, k); err != nil {
			return err
		}
	}
	return nil
}

func deletePrefix(b *bolt.Bucket, prefix []byte) error {
	var keys [][]byte
	cursor := b.Cursor()
	for k, _ := cursor.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cursor.Next() {
		keys = append(keys, append([]byte(nil), k...))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// thinBitmaps clears the bits of this run in the bitmaps of older generations.
func (w *commit) thinBitmaps(tx *bolt.Tx) error {
	live := w.c.live.Load()
	if live == nil || len(live.newest) <= fullBitmaps {
		return nil
	}
	kept := cachefile.Bucket(tx, bucketKept)
	for _, writer := range live.newest[fullBitmaps:] {
		for chunk, bits := range w.kept {
			key := keptKey(writer, chunk)
			old := keptBits(kept, key)
			if old == nil {
				continue
			}
			left, any := make([]byte, len(old)), false
			for i := range old {
				left[i] = old[i]
				if i < len(bits) {
					left[i] &^= bits[i]
				}
				any = any || left[i] != 0
			}
			var err error
			if any {
				err = cachefile.PutSummed(kept, key, left)
			} else {
				err = kept.Delete(key)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep deletes the entries that do not count: those of deleted directories and of interrupted runs. It reads every
// entry, so it runs only when their number has doubled. The caller holds c.write.
func (c *Cache) sweep() error {
	live := c.live.Load()
	if live == nil {
		return nil
	}
	after := []byte(nil)
	for {
		done := false
		err := c.Update("sweep directories", func(tx *bolt.Tx) error {
			state, err := readState(tx)
			if err != nil {
				return err
			}
			var gone [][]byte
			gone, after = dead(tx, live, after, c.step)
			for _, k := range gone {
				if err := cachefile.Bucket(tx, bucketDirs).Delete(k); err != nil {
					return err
				}
			}
			state.entries -= min(state.entries, uint64(len(gone)))
			if done = after == nil; done {
				state.swept = state.entries
			}
			return state.write(tx)
		})
		if err != nil || done {
			return err
		}
	}
}

// dead reads the entries after a key and returns those that do not count, and the key to continue after, nil at the
// end.
func dead(tx *bolt.Tx, live *liveSet, after []byte, step int) (gone [][]byte, last []byte) {
	cursor, kept := cachefile.Bucket(tx, bucketDirs).Cursor(), cachefile.Bucket(tx, bucketKept)
	k, v := cachefile.First(cursor)
	if after != nil {
		if k, v = cursor.Seek(after); string(k) == string(after) {
			k, v = cursor.Next()
		}
	}
	for n := 0; k != nil; k, v = cursor.Next() {
		if n++; n > 4*step || len(gone) == step {
			return gone, last
		}
		last = append(last[:0:0], k...)
		e, ok := parseEntry(k, v)
		if ok {
			_, ok = live.snapshotOf(kept, &e)
		}
		if !ok {
			gone = append(gone, last)
		}
	}
	return gone, nil
}
