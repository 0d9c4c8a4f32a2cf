package hashcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// dirsPerCommit is how many entries one transaction writes, and bytesPerCommit how many bytes of values: some 8 MiB of
	// memory.
	dirsPerCommit  = 16 << 10
	bytesPerCommit = 4 << 20
	// fullBitmaps is how many of the newest live runs keep their whole bitmaps. In older ones, bits that a newer run
	// repeats are cleared, so that bitmaps do not add up over hundreds of snapshots, and yet what only an old run says
	// (another source, backed up seldom) stays. If more than this many of the newest snapshots are forgotten at once,
	// some entries miss.
	fullBitmaps = 8
	// sweepSlack is how many entries more than twice those left by the last sweep are let be.
	sweepSlack = 100_000
)

// dirState is the bookkeeping of entries.
type dirState struct {
	next    DirRef // the next reference to give out
	writer  uint32 // the newest generation
	entries uint64 // at all, whether they count or not
	swept   uint64 // entries after the last sweep
}

func readDirState(tx *bolt.Tx) (s dirState, err error) {
	// There is one from the beginning: to begin anew would be to give out generations and references twice.
	v := bucket(tx, bucketMeta).Get([]byte(metaDirs))
	v, ok := proven([]byte(metaDirs), v, 28)
	if !ok {
		return dirState{}, fmt.Errorf("state of directories: %w", ErrDamaged)
	}
	s.next, s.writer = DirRef(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint32(v[8:])
	s.entries, s.swept = binary.BigEndian.Uint64(v[12:]), binary.BigEndian.Uint64(v[20:])
	return s, nil
}

func (s *dirState) write(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(s.next))
	v = binary.BigEndian.AppendUint32(v, s.writer)
	v = binary.BigEndian.AppendUint64(v, s.entries)
	v = binary.BigEndian.AppendUint64(v, s.swept)
	return putProven(bucket(tx, bucketMeta), []byte(metaDirs), v)
}

// commit writes a batch. Its generation is entered by the last transaction: before that, the entries written so far
// belong to a generation that nobody knows, and do not count.
type commit struct {
	c        *Cache
	snapshot format.ID
	source   *merger
	kept     map[uint32][]byte
	note     []byte // nil: the old one stays

	state dirState
}

func (w *commit) run() error {
	first := true
	for done := false; !done; {
		err := w.c.update("remember directories", func(tx *bolt.Tx) (err error) {
			if first {
				if w.state, err = readDirState(tx); err != nil {
					return err
				}
				w.state.writer++
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
		return w.c.sweepDirs()
	}
	return nil
}

// copy writes the next entries and reports whether they were the last.
func (w *commit) copy(tx *bolt.Tx) (done bool, err error) {
	dirs := bucket(tx, bucketDirs)
	dirs.FillPercent = 0.9
	for n, bytes := 0, 0; n < w.c.dirStep && bytes < bytesPerCommit; n++ {
		key, value, ok, err := w.source.next()
		if err != nil || !ok {
			return true, err
		}
		if dirs.Get(key[:]) == nil {
			w.state.entries++
		}
		e := dirEntry{writer: w.state.writer, ref: w.state.next, value: value}
		w.state.next++
		bytes += len(value)
		if err := dirs.Put(key[:], appendDir(nil, key[:], &e)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// finish makes the generation known.
func (w *commit) finish(tx *bolt.Tx) error {
	if err := w.forgetWriters(tx); err != nil {
		return err
	}
	if err := w.thinBitmaps(tx); err != nil {
		return err
	}
	kept := bucket(tx, bucketKept)
	for chunk, bits := range w.kept {
		if err := putProven(kept, keptKey(w.state.writer, chunk), bits); err != nil {
			return err
		}
	}
	if w.note != nil {
		if err := bucket(tx, bucketMeta).Put([]byte(metaNote), w.note); err != nil {
			return err
		}
	}
	return putProven(bucket(tx, bucketWriters), number(w.state.writer), w.snapshot[:])
}

// forgetWriters removes generations whose snapshots are gone. A snapshot never comes back: its name is a hash of what
// is in it, the time included.
func (w *commit) forgetWriters(tx *bolt.Tx) error {
	live := w.c.live.Load()
	if live == nil {
		return nil // not known
	}
	writers, kept := bucket(tx, bucketWriters), bucket(tx, bucketKept)
	var gone [][]byte
	err := wary.Each(writers, func(k, v []byte) error {
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

// thinBitmaps clears, in the bitmaps of older runs, what this run says as well.
func (w *commit) thinBitmaps(tx *bolt.Tx) error {
	live := w.c.live.Load()
	if live == nil || len(live.newest) <= fullBitmaps {
		return nil
	}
	kept := bucket(tx, bucketKept)
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
				err = putProven(kept, key, left)
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

// sweepDirs removes the entries that do not count: directories that are gone, and runs that were interrupted. It reads
// every entry, so it runs only when the entries have doubled. The caller holds c.write.
func (c *Cache) sweepDirs() error {
	live := c.live.Load()
	if live == nil {
		return nil
	}
	after := []byte(nil)
	for {
		done := false
		err := c.update("sweep directories", func(tx *bolt.Tx) error {
			state, err := readDirState(tx)
			if err != nil {
				return err
			}
			var gone [][]byte
			if gone, after, err = deadDirs(tx, live, after, c.dirStep); err != nil {
				return err
			}
			for _, k := range gone {
				if err := bucket(tx, bucketDirs).Delete(k); err != nil {
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

// deadDirs looks at the entries after a key, and returns those that do not count and the key to go on after, nil at the
// end.
func deadDirs(tx *bolt.Tx, live *liveSet, after []byte, step int) (gone [][]byte, last []byte, err error) {
	cursor, kept := bucket(tx, bucketDirs).Cursor(), bucket(tx, bucketKept)
	k, v := wary.First(cursor)
	if after != nil {
		if k, v = cursor.Seek(after); string(k) == string(after) {
			k, v = cursor.Next()
		}
	}
	for n := 0; k != nil; k, v = cursor.Next() {
		if n++; n > 4*step || len(gone) == step {
			return gone, last, nil
		}
		last = append(last[:0:0], k...)
		e, ok := parseDir(k, v)
		if ok {
			_, ok = live.vouches(kept, &e)
		}
		if !ok {
			gone = append(gone, last)
		}
	}
	return gone, nil, nil
}
