// Package index is the codec of index segments: for a set of packs, the tables of the blobs in them. An index is a
// cache and can be rebuilt from the packs. The caller seals and stores segments. The specification is in SPEC.md.
package index

import (
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

const (
	// Version is the version of the layout this package reads and writes.
	Version = 1

	headerSize = 4 // version, flags, reserved
	// minPackRow is the length of the shortest encoding of a pack: it bounds what a reader allocates.
	minPackRow = format.IDSize + 1 + pack.SaltSize + 2
)

// Pack describes one stored pack.
type Pack struct {
	ID    format.ID // its name: the hash of its bytes, and its kind
	Size  uint64    // bytes
	Table pack.Table
}

// Segment is the content of an index file.
type Segment struct {
	Packs      []Pack
	Supersedes []format.ID // older segments, all of whose packs that still exist are in this one

	Stored int64 // bytes of the file that holds it; not part of the encoding; 0: unknown
}

// Encode appends the encoding of s to dst. It writes packs and superseded segments by ascending ID, so that the bytes
// depend on the content only.
func Encode(dst []byte, s *Segment) []byte {
	dst = slices.Grow(dst, s.sizeHint())
	dst = wire.AppendUint16(append(dst, Version, 0), 0)
	supersedes := slices.Clone(s.Supersedes)
	slices.SortFunc(supersedes, format.ID.Compare)
	dst = wire.AppendUvarint(dst, uint64(len(supersedes)))
	for i := range supersedes {
		dst = append(dst, supersedes[i][:]...)
	}
	packs := make([]*Pack, len(s.Packs))
	for i := range packs {
		packs[i] = &s.Packs[i]
	}
	slices.SortFunc(packs, func(a, b *Pack) int { return a.ID.Compare(b.ID) })
	dst = wire.AppendUvarint(dst, uint64(len(packs)))
	for _, p := range packs {
		dst = append(dst, p.ID[:]...)
		dst = wire.AppendUvarint(dst, p.Size)
		dst = append(dst, p.Table.Salt[:]...)
		dst = pack.AppendFrames(dst, p.Table.Frames)
	}
	return dst
}

// sizeHint is about how many bytes s is encoded in, and seldom less. A segment of 64 Ki blobs that grew as it was
// appended to would take three times its size.
func (s *Segment) sizeHint() int {
	n := headerSize + 2*wire.MaxUvarint + len(s.Supersedes)*format.IDSize
	for i := range s.Packs {
		n += minPackRow + wire.MaxUvarint
		for j := range s.Packs[i].Table.Frames {
			n += 16 + len(s.Packs[i].Table.Frames[j].Blobs)*(format.IDSize+3) // blobs are below 2 MiB
		}
	}
	return n
}

// Decode decodes a segment. It does not keep p. The error wraps format.ErrCorrupt, or format.ErrUnsupported if a newer
// program wrote the segment.
func Decode(p []byte) (*Segment, error) {
	s, err := decode(wire.NewReader(p))
	if err != nil {
		return nil, fmt.Errorf("decode index segment: %w", err)
	}
	return s, nil
}

func decode(r *wire.Reader) (*Segment, error) {
	version, flags, reserved := r.Byte(), r.Byte(), r.Uint16()
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case version == 0:
		r.Fail("version 0 never existed")
		return nil, r.Err()
	case version > Version || flags != 0 || reserved != 0:
		return nil, fmt.Errorf("version %d, flags %#02x, reserved %#04x: %w", version, flags, reserved,
			format.ErrUnsupported)
	}
	s := &Segment{Supersedes: readIDs(r)}
	count := r.Count(minPackRow)
	if count > 0 {
		s.Packs = make([]Pack, count)
	}
	var last format.ID
	for i := range s.Packs {
		p := &s.Packs[i]
		if err := readPack(r, p); err != nil {
			return nil, err
		}
		if i > 0 && p.ID.Compare(last) <= 0 {
			r.Fail("pack %s after %s", p.ID.Short(), last.Short())
			break
		}
		last = p.ID
	}
	return s, r.Done()
}

func readPack(r *wire.Reader, p *Pack) error {
	p.ID = r.ID()
	p.Size = r.UvarintMax(pack.MaxPack)
	p.Table.Kind = pack.KindOf(p.ID)
	copy(p.Table.Salt[:], r.Take(pack.SaltSize))
	p.Table.Frames = pack.ReadFrames(r)
	if n := len(p.Table.Frames); n > 0 {
		if f := p.Table.Frames[n-1]; uint64(f.Offset)+uint64(f.Sealed) > p.Size {
			r.Fail("frames of pack %s exceed its %d bytes", p.ID.Short(), p.Size)
		}
	}
	return r.Err()
}

func readIDs(r *wire.Reader) []format.ID {
	count := r.Count(format.IDSize)
	if count == 0 {
		return nil
	}
	ids := make([]format.ID, count)
	for i := range ids {
		ids[i] = r.ID()
		if i > 0 && ids[i].Compare(ids[i-1]) <= 0 {
			r.Fail("superseded segment %s after %s", ids[i].Short(), ids[i-1].Short())
			return nil
		}
	}
	return ids
}
