package index

import (
	"cmp"
	"encoding/binary"

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

// Loc is the location of a blob in its pack.
type Loc struct {
	Offset, Sealed uint32 // of the frame in the pack
	Skip           uint32 // offset of the blob in the raw frame
	Len            uint32 // bytes
}

// Found is the result of a lookup: where a blob lies.
type Found struct {
	Loc
	Pack *PackInfo // nil: the blob is not known
}

// besides reports whether the blob is known to lie in another pack than but.
func (f *Found) besides(but format.ID) bool { return f.Pack != nil && f.Pack.ID != but }

// Compare orders by packs, frames, and places in a frame. Without a pack comes first.
func (f *Found) Compare(other *Found) int {
	if !f.SamePack(other) {
		switch {
		case f.Pack == nil:
			return -1
		case other.Pack == nil:
			return 1
		}
		return f.Pack.ID.Compare(other.Pack.ID)
	}
	return cmp.Or(cmp.Compare(f.Offset, other.Offset), cmp.Compare(f.Skip, other.Skip))
}

// SamePack reports whether both lie in one pack, or both in none.
func (f *Found) SamePack(other *Found) bool {
	return f.Pack == other.Pack || f.Pack != nil && other.Pack != nil && f.Pack.ID == other.Pack.ID
}

// SameFrame reports whether both lie in one frame.
func (f *Found) SameFrame(other *Found) bool { return f.Offset == other.Offset && f.SamePack(other) }

// locSize is the length of what appendLoc appends.
const locSize = 5 * 4

// appendLoc encodes what is kept of a blob beside its ID: its location, and a number, of its pack in a run, or of the
// blob in a Temporary.
func appendLoc(dst []byte, l Loc, number uint32) []byte {
	for _, n := range [...]uint32{number, l.Offset, l.Sealed, l.Skip, l.Len} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	return dst
}

func parseLoc(p []byte) (l Loc, number uint32) {
	n := func(i int) uint32 { return binary.LittleEndian.Uint32(p[4*i:]) }
	return Loc{Offset: n(1), Sealed: n(2), Skip: n(3), Len: n(4)}, n(0)
}

func infoOf(p *index.Pack) PackInfo {
	return PackInfo{ID: p.ID, Salt: p.Table.Salt, Size: p.Size}
}

// EachBlob calls visit for the blobs of a pack in the order of its table.
func EachBlob(t *pack.Table, visit func(id format.ID, loc Loc) error) error {
	for _, f := range t.Frames {
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

const packSize = format.IDSize + pack.SaltSize + 8

func appendPack(dst []byte, p *PackInfo) []byte {
	dst = append(dst, p.ID[:]...)
	dst = append(dst, p.Salt[:]...)
	return binary.BigEndian.AppendUint64(dst, p.Size)
}

// parsePack decodes the packSize bytes of appendPack.
func parsePack(v []byte) (p PackInfo) {
	p.ID = format.ID(v)
	v = v[format.IDSize:]
	copy(p.Salt[:], v)
	p.Size = binary.BigEndian.Uint64(v[pack.SaltSize:])
	return p
}
