package pack

import (
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Builder assembles sealed frames into a pack, in memory. It is not safe for concurrent use.
type Builder struct {
	aead   cipher.AEAD
	head   header
	buf    []byte // the pack so far
	frames []Frame
	table  int // maximum length of the table in the trailer so far
	done   bool

	// Scratch buffers. They are passed through an interface, so local ones would be allocated for each frame.
	nonce [nonceSize]byte
	ad    [HeaderSize + max(FrameHeaderSize, FooterSize)]byte
}

// NewBuilder starts a pack with a new salt, and so a new key. The pack is written into the storage of buf, which may be
// nil; a caller that knows the size of its packs gives it that capacity.
func NewBuilder(k *seal.Keys, kind Kind, buf []byte) *Builder {
	var salt [SaltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	return newBuilder(k, kind, salt, buf)
}

func newBuilder(k *seal.Keys, kind Kind, salt [SaltSize]byte, buf []byte) *Builder {
	if !kind.Valid() {
		panic(fmt.Sprintf("start pack: no such kind: %d", kind)) // a mistake of the caller
	}
	b := &Builder{aead: k.PackAEAD(byte(kind), salt), head: newHeader(kind, salt), table: 2 * wire.MaxUvarint}
	b.buf = append(buf[:0], b.head[:]...)
	copy(b.ad[:], b.head[:])
	return b
}

// Size returns the length in bytes of the pack so far: header and frames, without the trailer to come.
func (b *Builder) Size() int { return len(b.buf) }

// Frames returns how many frames were appended.
func (b *Builder) Frames() int { return len(b.frames) }

// Append seals p as the next frame. The IDs in p are not verified. The payload is copied: it may be reused at once. If
// the pack would become longer than MaxPack, the error is ErrFull and the pack stays unchanged.
func (b *Builder) Append(p *Payload) error {
	if b.done {
		return ErrFinished
	}
	lens, err := checkPayload(p)
	if err != nil {
		return fmt.Errorf("append frame: %w", err)
	}
	body := bodySize(p, lens)
	sealed := FrameHeaderSize + body
	row := rowSize(p)
	if len(b.buf)+sealed+trailerSize(b.table+row)+FooterSize > MaxPack {
		return fmt.Errorf("append frame of %d bytes: %w", sealed, ErrFull)
	}
	offset := len(b.buf)
	b.buf = slices.Grow(b.buf, sealed)
	b.buf = frameHeader{body: uint32(body)}.appendTo(b.buf)
	b.buf = append(b.buf, byte(p.Codec))
	b.buf = wire.AppendUvarint(b.buf, uint64(len(p.Blobs)))
	for i := range p.Blobs {
		b.buf = wire.AppendUvarint(b.buf, uint64(p.Blobs[i].Len))
	}
	b.buf = append(b.buf, p.Data...)
	copy(b.ad[HeaderSize:], b.buf[offset:offset+FrameHeaderSize])
	b.sealFrom(offset+FrameHeaderSize, offset, nonceFrame, FrameHeaderSize)
	b.frames = append(b.frames, Frame{Offset: uint32(offset), Sealed: uint32(sealed), Raw: p.Raw, Codec: p.Codec,
		Blobs: slices.Clone(p.Blobs)})
	b.table += row
	return nil
}

// SizeWith returns the maximum size of the finished pack if p were its last frame.
func (b *Builder) SizeWith(p *Payload) int {
	return len(b.buf) + FrameHeaderSize + bodySize(p, lengthsSize(p)) + trailerSize(b.table+rowSize(p)) + FooterSize
}

// rowSize returns the maximum length of a frame's row in the table.
func rowSize(p *Payload) int {
	return minFrameRow + 2*wire.MaxUvarint + len(p.Blobs)*(4+format.IDSize)
}

// bodySize returns the length of a frame's body with its tag; lens is that of the lengths of its blobs.
func bodySize(p *Payload, lens int) int {
	var scratch [wire.MaxUvarint]byte
	return 1 + len(wire.AppendUvarint(scratch[:0], uint64(len(p.Blobs)))) + lens + len(p.Data) + tagSize
}

func lengthsSize(p *Payload) (lens int) {
	var scratch [wire.MaxUvarint]byte
	for i := range p.Blobs {
		lens += len(wire.AppendUvarint(scratch[:0], uint64(p.Blobs[i].Len)))
	}
	return lens
}

// sealFrom encrypts everything from start to the end in place and adds the tag. The associated data are the pack's
// header and the next extra bytes of b.ad.
func (b *Builder) sealFrom(start, offset int, use uint32, extra int) {
	putNonce(&b.nonce, uint64(offset), use)
	b.buf = b.aead.Seal(b.buf[:start], b.nonce[:], b.buf[start:], b.ad[:HeaderSize+extra])
}

// checkPayload returns how many bytes the lengths of the blobs take, one uvarint each.
func checkPayload(p *Payload) (lens int, err error) {
	if len(p.Blobs) == 0 || len(p.Blobs) > MaxFrameBlobs {
		return 0, fmt.Errorf("%d blobs, want 1 to %d", len(p.Blobs), MaxFrameBlobs)
	}
	raw := uint64(0)
	for i := range p.Blobs {
		raw += uint64(p.Blobs[i].Len)
	}
	switch {
	case raw != uint64(p.Raw):
		return 0, fmt.Errorf("blobs have %d bytes, the frame says %d", raw, p.Raw)
	case raw > MaxFrameRaw:
		return 0, fmt.Errorf("%d bytes exceed the %d of a frame", raw, MaxFrameRaw)
	case p.Codec != Stored && p.Codec != Zstd:
		return 0, fmt.Errorf("no such codec: %d", p.Codec)
	case p.Codec == Stored && len(p.Data) != int(p.Raw):
		return 0, fmt.Errorf("stored data has %d bytes, the frame says %d", len(p.Data), p.Raw)
	case len(p.Data) > MaxFrameRaw:
		return 0, fmt.Errorf("compressed data has %d bytes, more than any frame", len(p.Data))
	}
	return lengthsSize(p), nil
}

// Finish adds the trailer and the footer. The pack lies in the builder's storage, and its name is ID(data). A
// finished builder cannot be used again: start a new one, which may reuse the storage once the pack is stored.
func (b *Builder) Finish() (data []byte, t Table, err error) {
	if b.done {
		return nil, Table{}, ErrFinished
	}
	b.done = true
	t = Table{Kind: b.head.kind(), Salt: b.head.salt(), Frames: b.frames}
	start := len(b.buf)
	b.buf = slices.Grow(b.buf, trailerSize(b.table)+FooterSize)
	b.buf = AppendFrames(b.buf, b.frames)
	length := trailerSize(len(b.buf) - start)
	table := len(b.buf)
	b.buf = b.buf[:start+length-tagSize]
	clear(b.buf[table:])
	foot := newFooter(start, length)
	copy(b.ad[HeaderSize:], foot[:])
	b.sealFrom(start, start, nonceTrailer, FooterSize)
	b.buf = append(b.buf, foot[:]...)
	return b.buf, t, nil
}
