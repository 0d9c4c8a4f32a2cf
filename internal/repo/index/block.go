package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// blockBytes is the size at which a block ends: two blocks and their keys fill a page of 4 KiB.
	blockBytes = 1900
	// blockHead is the length of the checksum, the number of records, and the prefix of the last ID before the block.
	blockHead = 4 + 2 + 8
)

// block is about forty records, by ascending ID. It covers the IDs from the end of the block before up to its last one:
// an ID outside shows that the file led to the wrong block.
type block struct {
	after uint64 // prefix of the last ID of the block before; 0: it is the first
	ids   []byte // format.IDSize each
	locs  []byte // five varints each
}

func blockSum(seed uint32, p []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), p)
}

// appendBlock encodes a block. A backup relies on its content instead of storing a blob, so it has a checksum. The
// checksum covers a random number of the file, which detects a page of a removed file that reappeared.
func appendBlock(dst []byte, seed uint32, b *block) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(b.len()))
	dst = binary.BigEndian.AppendUint64(dst, b.after)
	dst = append(append(dst, b.ids...), b.locs...)
	binary.LittleEndian.PutUint32(dst, blockSum(seed, dst[4:]))
	return dst
}

// parseBlock opens a block, which aliases p.
func parseBlock(p []byte, seed uint32) (block, error) {
	if len(p) < blockHead || binary.LittleEndian.Uint32(p) != blockSum(seed, p[4:]) {
		return block{}, fmt.Errorf("block: %w", cachefile.ErrDamaged)
	}
	n := int(binary.LittleEndian.Uint16(p[4:])) * format.IDSize
	b := block{after: binary.BigEndian.Uint64(p[6:])}
	if p = p[blockHead:]; n == 0 || len(p) < n {
		return block{}, fmt.Errorf("block: %w", cachefile.ErrDamaged)
	}
	b.ids, b.locs = p[:n], p[n:]
	return b, nil
}

func (b *block) len() int { return len(b.ids) / format.IDSize }

func (b *block) id(i int) []byte { return b.ids[i*format.IDSize:][:format.IDSize] }

// find returns the record of an ID. The number of its pack is in the run of the block.
func (b *block) find(id *format.ID) (loc Loc, pack uint32, found bool, err error) {
	if prefixOf(id[:]) < b.after || bytes.Compare(id[:], b.id(b.len()-1)) > 0 {
		return Loc{}, 0, false, fmt.Errorf("wrong block: %w", cachefile.ErrDamaged)
	}
	low, high := 0, b.len()
	for low < high {
		mid := (low + high) / 2
		switch bytes.Compare(b.id(mid), id[:]) {
		case 0:
			rest, err := skipLocs(b.locs, mid)
			if err == nil {
				loc, pack, _, err = takeLoc(rest)
			}
			return loc, pack, err == nil, err
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return Loc{}, 0, false, nil
}

func appendLoc(dst []byte, l *Loc, pack uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(pack))
	dst = binary.AppendUvarint(dst, uint64(l.Offset))
	dst = binary.AppendUvarint(dst, uint64(l.Sealed))
	dst = binary.AppendUvarint(dst, uint64(l.Skip))
	return binary.AppendUvarint(dst, uint64(l.Len))
}

// takeLoc decodes the location at the start of p and returns the rest.
func takeLoc(p []byte) (l Loc, pack uint32, rest []byte, err error) {
	for _, field := range [...]*uint32{&pack, &l.Offset, &l.Sealed, &l.Skip, &l.Len} {
		v, n := binary.Uvarint(p)
		if n <= 0 || v > 1<<32-1 {
			return Loc{}, 0, nil, fmt.Errorf("location of a blob: %w", cachefile.ErrDamaged)
		}
		*field, p = uint32(v), p[n:]
	}
	return l, pack, p, nil
}

// skipLocs returns p without its first n locations.
func skipLocs(p []byte, n int) ([]byte, error) {
	left := 5 * n
	for i := 0; left > 0; i++ {
		if i == len(p) {
			return nil, fmt.Errorf("locations of blobs: %w", cachefile.ErrDamaged)
		}
		if p[i] < 0x80 {
			if left--; left == 0 {
				return p[i+1:], nil
			}
		}
	}
	return p, nil
}
