// Package dircache remembers directories between backups: a value for each key, which a backup fills with digests and
// names. An entry counts only while a snapshot that contains the tree of the directory is in the repository (see
// Batch). The entries lie in a cache file (package cachefile) of their own.
package dircache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The buckets. A generation is the number of a run that committed a Batch.
const (
	bucketDirs    = "dirs"          // key -> entry
	bucketWriters = "writers"       // generation u32 -> snapshot ID
	bucketKept    = "kept"          // generation u32, chunk number u32 -> bitmap of references
	bucketState   = "state of dirs" // the names below
	stateName     = "state"         // state
	noteName      = "dircache note" // value of the file; missing: none
)

// Table returns the buckets of a directory cache.
func Table() cachefile.Table {
	return cachefile.Table{
		Buckets: []string{bucketDirs, bucketWriters, bucketKept, bucketState},
		Init:    func(tx *bolt.Tx) error { return (&state{}).write(tx) },
	}
}

// Hit is a remembered directory.
type Hit struct {
	Value    []byte    // as it was put
	Snapshot format.ID // in the repository; contains the tree that Value describes
	Ref      Ref       // for Batch.Keep
}

// Ref identifies one version of an entry. References are assigned in ascending order and never reused.
type Ref uint64

// bitsPerChunk is the number of references in one bitmap chunk of 4 KiB.
const bitsPerChunk = 1 << 15

// Cache is the directory cache in a cache file. A file has one Cache at most. It is safe for concurrent use.
type Cache struct {
	*cachefile.File
	write   sync.Mutex // held by a writer over several transactions
	live    atomic.Pointer[liveSet]
	readers *cachefile.ReadPool[*reader]
	step    int // entriesPerCommit, which tests reduce
}

// New returns the directory cache in f, which was opened with Table.
func New(f *cachefile.File) *Cache {
	return &Cache{File: f, step: entriesPerCommit, readers: cachefile.NewReadPool(f, newReader)}
}

// reader is what one lookup needs of a transaction.
type reader struct {
	cursor *bolt.Cursor // of bucketDirs
	kept   *bolt.Bucket
	key    [16]byte // bbolt makes a key escape to the heap
}

func newReader(tx *bolt.Tx) *reader {
	return &reader{cursor: cachefile.Bucket(tx, bucketDirs).Cursor(), kept: cachefile.Bucket(tx, bucketKept)}
}

// liveSet lists the generations that count. It is immutable.
type liveSet struct {
	snapshots map[format.ID]bool
	writers   map[uint32]format.ID // generation -> its snapshot
	newest    []uint32             // generations, the newest first
}

// SetLiveSnapshots sets which snapshots are in the repository. Before the first call no entry counts. The next
// Batch.Commit deletes the generations of other snapshots.
func (c *Cache) SetLiveSnapshots(ids []format.ID) error {
	c.write.Lock()
	defer c.write.Unlock()
	live := make(map[format.ID]bool, len(ids))
	for _, id := range ids {
		live[id] = true
	}
	return c.readWriters(live)
}

// readWriters replaces the live set. The caller holds c.write.
func (c *Cache) readWriters(snapshots map[format.ID]bool) error {
	set := &liveSet{snapshots: snapshots, writers: make(map[uint32]format.ID)}
	err := c.View("read writers of directories", func(tx *bolt.Tx) error {
		return cachefile.Each(cachefile.Bucket(tx, bucketWriters), func(k, v []byte) error {
			id, err := parseWriter(k, v)
			if err == nil && snapshots[id] {
				set.writers[binary.BigEndian.Uint32(k)] = id
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	set.newest = slices.Sorted(maps.Keys(set.writers))
	slices.Reverse(set.newest)
	c.live.Store(set)
	return nil
}

// parseWriter returns the snapshot of a generation.
func parseWriter(k, v []byte) (format.ID, error) {
	v, ok := cachefile.Summed(k, v, format.IDSize)
	if !ok || len(k) != 4 {
		return format.ID{}, fmt.Errorf("writer of directories: %w", cachefile.ErrDamaged)
	}
	return format.ID(v), nil
}

// Renamed makes the entries of a snapshot count for another one with the same tree, which takes its place.
func (c *Cache) Renamed(from, to format.ID) error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.Update("rename snapshot of directories", func(tx *bolt.Tx) error {
		writers := cachefile.Bucket(tx, bucketWriters)
		var generations []uint32
		err := cachefile.Each(writers, func(k, v []byte) error {
			id, err := parseWriter(k, v)
			if err == nil && id == from {
				generations = append(generations, binary.BigEndian.Uint32(k))
			}
			return err
		})
		for _, n := range generations {
			if err == nil {
				err = cachefile.PutSummed(writers, cachefile.Number(n), to[:])
			}
		}
		return err
	})
}

// Note returns the note of the last committed Batch that had one, or nil.
func (c *Cache) Note() ([]byte, error) { return c.Value(noteName) }

// Lookup returns the entry under key if it counts. The value is written over buf, which may be nil, if that is large
// enough.
func (c *Cache) Lookup(key [16]byte, buf []byte) (hit Hit, ok bool, err error) {
	live := c.live.Load()
	if live == nil || len(live.newest) == 0 {
		return Hit{}, false, nil
	}
	err = c.readers.Read("look up directory", func(r *reader) error {
		r.key = key
		k, v := r.cursor.Seek(r.key[:])
		if !bytes.Equal(k, r.key[:]) {
			return nil
		}
		e, valid := parseEntry(k, v)
		if valid {
			hit.Snapshot, ok = live.snapshotOf(r.kept, &e)
		}
		if ok {
			hit.Value, hit.Ref = append(buf[:0], e.value...), e.ref
		}
		return nil
	})
	return hit, ok && err == nil, err
}

// snapshotOf returns a live snapshot that contains the tree of e: that of its writer, or the newest that kept it.
func (s *liveSet) snapshotOf(kept *bolt.Bucket, e *entry) (format.ID, bool) {
	if id, ok := s.writers[e.writer]; ok {
		return id, true // reading the bitmaps would take as long as the lookup itself
	}
	for _, n := range s.newest {
		if n <= e.writer {
			break
		}
		if bitAt(keptBits(kept, keptKey(n, uint32(e.ref/bitsPerChunk))), e.ref) {
			return s.writers[n], true
		}
	}
	return format.ID{}, false
}

func keptKey(generation, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(cachefile.Number(generation), chunk)
}

// keptBits returns a bitmap chunk. A damaged one counts as empty.
func keptBits(kept *bolt.Bucket, key []byte) []byte {
	bits, ok := cachefile.Summed(key, kept.Get(key), bitsPerChunk/8)
	if !ok {
		return nil
	}
	return bits
}

func bitAt(bits []byte, ref Ref) bool {
	i := int(ref % bitsPerChunk)
	return i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0
}

// entry is an entry as it is stored.
type entry struct {
	writer uint32 // generation
	ref    Ref
	value  []byte
}

// appendEntry encodes an entry: checksum, generation, reference, value. The checksum covers the key and the rest: a
// tree ID with a flipped bit would be taken over into a snapshot.
func appendEntry(dst, key []byte, e *entry) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(e.writer))
	dst = binary.AppendUvarint(dst, uint64(e.ref))
	dst = append(dst, e.value...)
	binary.LittleEndian.PutUint32(dst[start:], cachefile.Sum(key, dst[start+4:]))
	return dst
}

// parseEntry decodes an entry. A damaged one counts as missing.
func parseEntry(key, p []byte) (e entry, ok bool) {
	if len(p) < 4 || binary.LittleEndian.Uint32(p) != cachefile.Sum(key, p[4:]) {
		return entry{}, false
	}
	p = p[4:]
	writer, n := binary.Uvarint(p)
	if n <= 0 || writer > 1<<32-1 {
		return entry{}, false
	}
	ref, m := binary.Uvarint(p[n:])
	if m <= 0 {
		return entry{}, false
	}
	return entry{uint32(writer), Ref(ref), p[n+m:]}, true
}
