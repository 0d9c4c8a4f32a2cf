package hashcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// DirHit is what the cache remembers of a directory.
type DirHit struct {
	Value    []byte    // as it was put
	Snapshot format.ID // in the repository, and known to contain the tree that Value speaks of
	Ref      DirRef    // for DirBatch.Keep
}

// DirRef names one version of one entry. References are given out in ascending order and never twice.
type DirRef uint64

// liveSet says which writers count. It does not change.
type liveSet struct {
	snapshots map[format.ID]bool
	writers   map[uint32]format.ID // generation -> its snapshot
	newest    []uint32             // the generations, the newest first
}

const (
	// bitsPerChunk is how many references one chunk of bits speaks of: 4 KiB.
	bitsPerChunk = 1 << 15
)

// SetLiveSnapshots says which snapshots are in the repository. Until it is called, no entry counts. Entries of other
// snapshots are not removed at once; the next DirBatch.Commit forgets their writers.
func (c *Cache) SetLiveSnapshots(ids []format.ID) error {
	c.write.Lock()
	defer c.write.Unlock()
	live := make(map[format.ID]bool, len(ids))
	for _, id := range ids {
		live[id] = true
	}
	return c.readWriters(live)
}

// readWriters makes the live set anew. The caller holds c.write.
func (c *Cache) readWriters(snapshots map[format.ID]bool) error {
	set := &liveSet{snapshots: snapshots, writers: make(map[uint32]format.ID)}
	err := c.view("read writers of directories", func(tx *bolt.Tx) error {
		return wary.Each(bucket(tx, bucketWriters), func(k, v []byte) error {
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

// parseWriter returns the snapshot of a run.
func parseWriter(k, v []byte) (format.ID, error) {
	v, ok := proven(k, v, format.IDSize)
	if !ok || len(k) != 4 {
		return format.ID{}, fmt.Errorf("writer of directories: %w", ErrDamaged)
	}
	return format.ID(v), nil
}

// DirSnapshots returns the snapshots that wrote or confirmed entries, whether they are still in the repository or not.
func (c *Cache) DirSnapshots() ([]format.ID, error) {
	var ids []format.ID
	err := c.view("list writers of directories", func(tx *bolt.Tx) error {
		return wary.Each(bucket(tx, bucketWriters), func(k, v []byte) error {
			id, err := parseWriter(k, v)
			ids = append(ids, id)
			return err
		})
	})
	return ids, err
}

// DirNote returns the Note of the last DirBatch that was committed and had one; nil: there is none.
func (c *Cache) DirNote() (note []byte, err error) {
	err = c.view("read note on directories", func(tx *bolt.Tx) error {
		note = bytes.Clone(bucket(tx, bucketMeta).Get([]byte(metaNote)))
		return nil
	})
	return note, err
}

// Dir returns what was remembered of the directory under key, if it counts: see DirBatch. The value is written over room,
// which may be nil, where that is large enough.
func (c *Cache) Dir(key [16]byte, room []byte) (hit DirHit, ok bool, err error) {
	live := c.live.Load()
	if live == nil || len(live.newest) == 0 {
		return DirHit{}, false, nil
	}
	err = c.guard("look up directory", func() error {
		l, err := c.lookers.take(c)
		if err != nil {
			return err
		}
		l.key = key
		if k, v := l.cursor.Seek(l.key[:]); bytes.Equal(k, l.key[:]) {
			e, found := parseDir(k, v)
			if found {
				hit.Snapshot, ok = live.vouches(l.kept, &e)
			}
			if ok {
				hit.Value, hit.Ref = append(room[:0], e.value...), e.ref
			}
		}
		c.mapped.looked(c.db, l.tx, 1)
		return c.lookers.put(c, l)
	})
	return hit, ok && err == nil, err
}

// vouches returns a live snapshot that contains the tree of e: the one that wrote it, or the newest that kept it.
func (s *liveSet) vouches(kept *bolt.Bucket, e *dirEntry) (format.ID, bool) {
	if id, ok := s.writers[e.writer]; ok {
		return id, true // to find the bits would cost as much as to find the entry did
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

func keptKey(writer, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(number(writer), chunk)
}

// keptBits returns a chunk of references. One that is damaged says nothing of any: what it kept is a miss.
func keptBits(kept *bolt.Bucket, key []byte) []byte {
	bits, ok := proven(key, kept.Get(key), bitsPerChunk/8)
	if !ok {
		return nil
	}
	return bits
}

func bitAt(bits []byte, ref DirRef) bool {
	i := int(ref % bitsPerChunk)
	return i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0
}

// dirEntry is an entry as it is stored.
type dirEntry struct {
	writer uint32 // generation
	ref    DirRef
	value  []byte
}

// appendDir encodes an entry: checksum over the rest and the key, generation, reference, value. The checksum is there
// because a tree ID with a flipped bit would be believed and end up in a snapshot; a page of bbolt has none.
func appendDir(dst, key []byte, e *dirEntry) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.AppendUvarint(dst, uint64(e.writer))
	dst = binary.AppendUvarint(dst, uint64(e.ref))
	dst = append(dst, e.value...)
	binary.LittleEndian.PutUint32(dst[start:], sum(key, dst[start+4:]))
	return dst
}

// parseDir decodes an entry. One that is damaged is as good as none.
func parseDir(key, p []byte) (e dirEntry, ok bool) {
	if len(p) < 4 || binary.LittleEndian.Uint32(p) != sum(key, p[4:]) {
		return dirEntry{}, false
	}
	p = p[4:]
	writer, n := binary.Uvarint(p)
	if n <= 0 || writer > 1<<32-1 {
		return dirEntry{}, false
	}
	ref, m := binary.Uvarint(p[n:])
	if m <= 0 {
		return dirEntry{}, false
	}
	return dirEntry{uint32(writer), DirRef(ref), p[n+m:]}, true
}
