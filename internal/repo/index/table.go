package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// PackInfo is what opening frames of a pack needs.
type PackInfo struct {
	ID   format.ID
	Salt [pack.SaltSize]byte
	Size uint64 // bytes
}

// Kind returns what the pack holds.
func (p *PackInfo) Kind() pack.Kind { return pack.KindOf(p.ID) }

// The buckets besides those of the runs.
const (
	bucketSegments = "segments" // segment ID -> bytes of its file u64; 0: unknown, or the segment was superseded
	bucketPacks    = "packs"    // pack number u32 -> PackInfo
	bucketPackIDs  = "pack ids" // pack ID -> pack number u32
)

func packBuckets() []string { return []string{bucketSegments, bucketPacks, bucketPackIDs} }

// Table returns the buckets of a FileIndex.
func Table() cachefile.Table {
	return cachefile.Table{Buckets: slices.Concat(packBuckets(), runBuckets())}
}

// FileIndex is the blob index in a cache file. It is safe for concurrent use.
type FileIndex struct {
	*cachefile.File
	write sync.Mutex // held by a writer over several transactions
	runs  *sortedRuns
}

// NewFileIndex returns the blob index in f, which was opened with Table.
func NewFileIndex(f *cachefile.File) *FileIndex { return &FileIndex{File: f, runs: newSortedRuns(f)} }

// Segments returns the merged index segments and the sizes of their files in bytes; 0: not known.
func (x *FileIndex) Segments() (map[format.ID]int64, error) {
	merged := make(map[format.ID]int64)
	err := x.View("list merged segments", func(tx *bolt.Tx) error {
		return cachefile.Each(cachefile.Bucket(tx, bucketSegments), func(k, v []byte) error {
			if len(k) != format.IDSize || len(v) != 8 {
				return fmt.Errorf("segment of %d and %d bytes: %w", len(k), len(v), cachefile.ErrDamaged)
			}
			merged[format.ID(k)] = int64(binary.BigEndian.Uint64(v))
			return nil
		})
	})
	return merged, err
}

// Merge adds the content of a segment. A known blob gets its new location. Merging a segment again changes nothing. A
// merge occasionally rewrites what earlier ones wrote; lookups continue meanwhile.
func (x *FileIndex) Merge(id format.ID, seg *index.Segment) error {
	x.write.Lock()
	defer x.write.Unlock()
	merged, grown := false, false
	err := x.Update("merge index segment", func(tx *bolt.Tx) error {
		segments := cachefile.Bucket(tx, bucketSegments)
		if merged = segments.Get(id[:]) != nil; merged {
			return nil
		}
		records, err := gather(tx, seg)
		if err != nil {
			return err
		}
		if grown = len(records) > 0; grown {
			if err := writeRun(tx, records); err != nil {
				return err
			}
		}
		return segments.Put(id[:], binary.BigEndian.AppendUint64(nil, uint64(seg.Stored)))
	})
	if err != nil || merged || !grown {
		return err
	}
	return x.runs.settle()
}

// gather enters the packs of a segment and returns their blobs.
func gather(tx *bolt.Tx, seg *index.Segment) ([]record, error) {
	n := 0
	for i := range seg.Packs {
		n += blobsOf(&seg.Packs[i])
	}
	records := make([]record, 0, n)
	for i := range seg.Packs {
		n, err := enterPack(tx, infoOf(&seg.Packs[i]))
		if err != nil {
			return nil, err
		}
		_ = eachBlob(&seg.Packs[i], func(id format.ID, loc Loc) error {
			loc.Pack = n
			records = append(records, record{id, loc})
			return nil
		})
	}
	return records, nil
}

func infoOf(p *index.Pack) PackInfo {
	return PackInfo{ID: p.ID, Salt: p.Table.Salt, Size: p.Size}
}

func blobsOf(p *index.Pack) (n int) {
	for i := range p.Table.Frames {
		n += len(p.Table.Frames[i].Blobs)
	}
	return n
}

// eachBlob calls visit for the blobs of a pack in the order of its table. The Pack of each location is zero.
func eachBlob(p *index.Pack, visit func(id format.ID, loc Loc) error) error {
	for _, f := range p.Table.Frames {
		loc := Loc{Offset: f.Offset, Sealed: f.Sealed}
		for _, b := range f.Blobs {
			loc.Len = b.Len
			if err := visit(b.ID, loc); err != nil {
				return err
			}
			loc.Skip += b.Len
		}
	}
	return nil
}

// enterPack returns the number of a pack, which keeps the number that it has.
func enterPack(tx *bolt.Tx, info PackInfo) (uint32, error) {
	packs, ids := cachefile.Bucket(tx, bucketPacks), cachefile.Bucket(tx, bucketPackIDs)
	value := appendPack(nil, &info)
	if v := ids.Get(info.ID[:]); v != nil {
		v, ok := cachefile.Summed(info.ID[:], v, 4)
		if !ok {
			return 0, fmt.Errorf("number of pack %s: %w", info.ID.Short(), cachefile.ErrDamaged)
		}
		return binary.BigEndian.Uint32(v), cachefile.PutSummed(packs, slices.Clone(v), value)
	}
	n := uint32(0)
	if last, v := cachefile.Last(packs.Cursor()); last != nil {
		if _, ok := cachefile.Summed(last, v, packSize); !ok || len(last) != 4 {
			return 0, fmt.Errorf("newest pack: %w", cachefile.ErrDamaged) // a number would be assigned twice
		}
		n = binary.BigEndian.Uint32(last) + 1
	}
	if err := cachefile.PutSummed(packs, cachefile.Number(n), value); err != nil {
		return 0, err
	}
	return n, cachefile.PutSummed(ids, info.ID[:], cachefile.Number(n))
}

func appendPack(dst []byte, p *PackInfo) []byte {
	dst = append(dst, p.ID[:]...)
	dst = append(dst, p.Salt[:]...)
	return binary.BigEndian.AppendUint64(dst, p.Size)
}

const packSize = format.IDSize + pack.SaltSize + 8

// parsePack decodes the packSize bytes of appendPack.
func parsePack(v []byte) (p PackInfo) {
	p.ID = format.ID(v)
	v = v[format.IDSize:]
	copy(p.Salt[:], v)
	p.Size = binary.BigEndian.Uint64(v[pack.SaltSize:])
	return p
}

// Pack returns a pack by its number. Packs are numbered from 0 without gaps, in the order in which they were merged;
// the error for a number beyond the last is ErrNoPack. Numbers are valid until Drop.
func (x *FileIndex) Pack(n uint32) (PackInfo, error) {
	var info PackInfo
	err := x.View("look up pack", func(tx *bolt.Tx) error {
		v := cachefile.Bucket(tx, bucketPacks).Get(cachefile.Number(n))
		if v == nil {
			return fmt.Errorf("pack %d: %w", n, ErrNoPack)
		}
		v, ok := cachefile.Summed(cachefile.Number(n), v, packSize)
		if !ok {
			return fmt.Errorf("pack %d: %w", n, cachefile.ErrDamaged)
		}
		info = parsePack(v)
		return nil
	})
	return info, err
}

// Drop deletes all blobs, packs and segments; pack numbers start again. Other tables of the file stay.
func (x *FileIndex) Drop() error {
	x.write.Lock()
	defer x.write.Unlock()
	err := x.Update("empty cache", func(tx *bolt.Tx) error {
		if err := recreate(tx, packBuckets()); err != nil {
			return err
		}
		return clearRuns(tx)
	})
	if err != nil {
		return err
	}
	return x.runs.settle()
}

// Lookup fills out, which must be as long as ids, from one consistent state.
func (x *FileIndex) Lookup(ids []format.ID, out []Found) error { return x.runs.lookup(ids, out) }
