package hashcache

import (
	"encoding/binary"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/internal/hashcache/wary"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Segments returns the IDs of the index segments that were merged.
func (c *Cache) Segments() ([]format.ID, error) {
	var ids []format.ID
	err := c.view("list merged segments", func(tx *bolt.Tx) error {
		return wary.Each(bucket(tx, bucketSegments), func(k, _ []byte) error {
			if len(k) != format.IDSize {
				return fmt.Errorf("segment of %d bytes: %w", len(k), ErrDamaged)
			}
			ids = append(ids, format.ID(k))
			return nil
		})
	})
	return ids, err
}

// Merge adds what a segment says. A blob that is known already gets its new place. Merging a segment again changes
// nothing. Sometimes a merge rewrites what many before it wrote; other calls are not held up by that.
func (c *Cache) Merge(id format.ID, seg *index.Segment) error {
	c.write.Lock()
	defer c.write.Unlock()
	merged, grown := false, false
	err := c.update("merge index segment", func(tx *bolt.Tx) error {
		segments := bucket(tx, bucketSegments)
		if merged = segments.Get(id[:]) != nil; merged {
			return nil
		}
		records, err := gather(tx, seg)
		if err != nil {
			return err
		}
		if grown = len(records) > 0; grown {
			if err := runs.Write(tx, records); err != nil {
				return err
			}
		}
		return segments.Put(id[:], []byte{})
	})
	if err != nil || merged || !grown {
		return err
	}
	return c.blobs.Settle()
}

// gather enters the packs of a segment and returns their blobs.
func gather(tx *bolt.Tx, seg *index.Segment) ([]runs.Record, error) {
	n := 0
	for i := range seg.Packs {
		n += blobsOf(&seg.Packs[i])
	}
	records := make([]runs.Record, 0, n)
	for i := range seg.Packs {
		p := &seg.Packs[i]
		n, err := enterPack(tx, PackInfo{ID: p.ID, Salt: p.Table.Salt, Kind: p.Table.Kind, Size: p.Size})
		if err != nil {
			return nil, err
		}
		for _, f := range p.Table.Frames {
			loc := Loc{Pack: n, Offset: f.Offset, Sealed: f.Sealed}
			for _, b := range f.Blobs {
				loc.Len = b.Len
				records = append(records, runs.Record{ID: b.ID, Loc: loc})
				loc.Skip += b.Len
			}
		}
	}
	return records, nil
}

// enterPack returns the number of a pack, the one it has if it is known.
func enterPack(tx *bolt.Tx, info PackInfo) (uint32, error) {
	packs, ids := bucket(tx, bucketPacks), bucket(tx, bucketPackIDs)
	value := appendPack(nil, &info)
	if v := ids.Get(info.ID[:]); v != nil {
		v, ok := proven(info.ID[:], v, 4)
		if !ok {
			return 0, fmt.Errorf("number of pack %s: %w", info.ID.Short(), ErrDamaged)
		}
		return binary.BigEndian.Uint32(v), putProven(packs, slices.Clone(v), value)
	}
	n := uint32(0)
	if last, v := wary.Last(packs.Cursor()); last != nil {
		if _, ok := proven(last, v, packSize); !ok || len(last) != 4 {
			return 0, fmt.Errorf("newest pack: %w", ErrDamaged) // a number would be given out twice
		}
		n = binary.BigEndian.Uint32(last) + 1
	}
	if err := putProven(packs, number(n), value); err != nil {
		return 0, err
	}
	return n, putProven(ids, info.ID[:], number(n))
}

func appendPack(dst []byte, p *PackInfo) []byte {
	dst = append(dst, p.ID[:]...)
	dst = append(dst, p.Salt[:]...)
	dst = append(dst, byte(p.Kind))
	return binary.BigEndian.AppendUint64(dst, p.Size)
}

const packSize = format.IDSize + pack.SaltSize + 1 + 8

// parsePack reads what appendPack wrote, packSize bytes.
func parsePack(v []byte) (p PackInfo) {
	p.ID = format.ID(v)
	v = v[format.IDSize:]
	copy(p.Salt[:], v)
	v = v[pack.SaltSize:]
	p.Kind, p.Size = pack.Kind(v[0]), binary.BigEndian.Uint64(v[1:])
	return p
}

// Pack returns what is known of a pack. Packs are numbered from 0 without gaps, in the order in which they were merged;
// the error for a number beyond the last is ErrNoPack. Numbers stay what they are until Drop.
func (c *Cache) Pack(n uint32) (PackInfo, error) {
	var info PackInfo
	err := c.view("look up pack", func(tx *bolt.Tx) error {
		v := bucket(tx, bucketPacks).Get(number(n))
		if v == nil {
			return fmt.Errorf("pack %d: %w", n, ErrNoPack)
		}
		v, ok := proven(number(n), v, packSize)
		if !ok {
			return fmt.Errorf("pack %d: %w", n, ErrDamaged)
		}
		info = parsePack(v)
		return nil
	})
	return info, err
}

// Drop forgets all blobs, packs and segments; numbers of packs begin anew. Directories stay.
func (c *Cache) Drop() error {
	c.write.Lock()
	defer c.write.Unlock()
	err := c.update("empty cache", func(tx *bolt.Tx) error {
		for _, name := range packBuckets() {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return runs.Clear(tx)
	})
	if err != nil {
		return err
	}
	return c.blobs.Settle()
}

// Lookup finds out where blobs lie; out must be as long as ids. All answers are of one moment.
func (c *Cache) Lookup(ids []format.ID, out []Found) error {
	return c.blobs.Lookup(ids, out)
}

// MayContain reports false only if the cache does not hold the blob; it asks nothing but memory. It says true when it
// does not know: after an error, or because the filters of the longest runs do not fit.
func (c *Cache) MayContain(id format.ID) bool { return c.blobs.MayContain(id) }
