package pack

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

const (
	// Version is the version of the layout this package reads and writes.
	Version = 1
	// SaltSize is the length in bytes of the random salt from which a pack's key is derived.
	SaltSize = seal.SaltSize
	// HeaderSize is the length in bytes of the header; the first frame follows it.
	HeaderSize = packSaltOffset + SaltSize
	// FrameHeaderSize is the length in bytes of a frame's header.
	FrameHeaderSize = 12
	// FooterSize is the length in bytes of the footer, which ends a pack.
	FooterSize = 32
	// MaxFrameRaw is the maximum sum of the lengths of a frame's blobs, which bounds the memory of a reader.
	MaxFrameRaw = 16 << 20
	// MaxFrameBlobs is the largest number of blobs in a frame.
	MaxFrameBlobs = 1 << 20
	// MaxPack is the largest length of a pack in bytes.
	MaxPack = 1 << 30
)

// Offsets of fields, from the tables of SPEC.md.
const (
	packMagic          = "TDMKPACK"
	packVersionOffset  = 8
	packKindOffset     = 9
	packFlagsOffset    = 10
	packEpochOffset    = 12
	packReservedOffset = 13
	packSaltOffset     = 16
	packFlagPublicKey  = 1 // reserved

	frameMagic          = "TDFR"
	frameFlagsOffset    = 4
	frameReservedOffset = 6
	frameBodyOffset     = 8

	footerTrailerOffset  = 0
	footerLengthOffset   = 8
	footerReservedOffset = 12
	footerMagicOffset    = 24
	footerMagic          = "TDMKTAIL"

	tagSize      = 16 // GCM
	nonceSize    = 12 // GCM
	nonceFrame   = 1  // last four bytes of the nonce of a frame
	nonceTrailer = 2  // and of the trailer

	// minSealed is the length of the shortest frame: a byte each for the codec, the number of blobs and one length.
	minSealed = FrameHeaderSize + 3 + tagSize
	// maxBody bounds the body of a frame: codec, number of blobs (MaxFrameBlobs is below 2^21), lengths of at most four
	// bytes (MaxFrameRaw is below 2^28), data, tag.
	maxBody = 1 + 3 + 4*MaxFrameBlobs + MaxFrameRaw + tagSize
	// trailerStep: the length of a trailer is a multiple of it, to hide the number of blobs.
	trailerStep = 4 << 10
)

type (
	header [HeaderSize]byte
	footer [FooterSize]byte
)

func newHeader(kind Kind, salt [SaltSize]byte) (h header) {
	copy(h[:], packMagic)
	h[packVersionOffset] = Version
	h[packKindOffset] = byte(kind)
	copy(h[packSaltOffset:], salt[:])
	return h
}

func (h *header) kind() Kind { return Kind(h[packKindOffset]) }

func (h *header) salt() [SaltSize]byte { return [SaltSize]byte(h[packSaltOffset:]) }

// checkForm checks magic, version, and what would decide another key. checkMeaning checks the rest after the header was
// authenticated, so that a flag of a newer program is not reported as damage, and damage not as a newer program.
func (h *header) checkForm() error {
	if string(h[:len(packMagic)]) != packMagic {
		return fmt.Errorf("not a pack: %w", format.ErrCorrupt)
	}
	switch v := h[packVersionOffset]; {
	case v > Version:
		return fmt.Errorf("pack version %d: %w", v, format.ErrUnsupported)
	case v < Version:
		return fmt.Errorf("pack version %d never existed: %w", v, format.ErrCorrupt)
	case h[packEpochOffset] != 0, h[packFlagsOffset]&packFlagPublicKey != 0: // the key is another one
		return fmt.Errorf("pack flags %#02x, key epoch %d: %w", h[packFlagsOffset], h[packEpochOffset],
			format.ErrUnsupported)
	}
	return nil
}

func (h *header) checkMeaning() error {
	if k := h.kind(); !k.Valid() {
		return fmt.Errorf("pack of %v: %w", k, format.ErrUnsupported)
	}
	flags, reserved := binary.LittleEndian.Uint16(h[packFlagsOffset:]), h[packReservedOffset:packSaltOffset]
	if flags != 0 || !isZero(reserved) {
		return fmt.Errorf("pack flags %#04x, reserved %x: %w", flags, reserved, format.ErrUnsupported)
	}
	return nil
}

func newFooter(trailer, length int) (f footer) {
	binary.LittleEndian.PutUint64(f[footerTrailerOffset:], uint64(trailer))
	binary.LittleEndian.PutUint32(f[footerLengthOffset:], uint32(length))
	copy(f[footerMagicOffset:], footerMagic)
	return f
}

// trailerSize returns the length of a trailer with its tag, for a table of that length.
func trailerSize(table int) int {
	return (table + tagSize + trailerStep - 1) / trailerStep * trailerStep
}

// frameHeader is the decoded header of a frame. It has no information on the blobs, because it can be read without the
// key.
type frameHeader struct {
	body  uint32 // bytes after the header
	other uint32 // flags and reserved bytes: only a newer program sets them
}

func (f frameHeader) appendTo(dst []byte) []byte {
	dst = append(dst, frameMagic...)
	dst = append(dst, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(dst, f.body)
}

// parseFrameHeader reads the header at the start of p and checks the fields that bound the reader's work.
func parseFrameHeader(p []byte) (frameHeader, error) {
	if len(p) < minSealed {
		return frameHeader{}, fmt.Errorf("%d bytes are too short for a frame: %w", len(p), format.ErrCorrupt)
	}
	if string(p[:len(frameMagic)]) != frameMagic {
		return frameHeader{}, fmt.Errorf("no frame begins here: %w", format.ErrCorrupt)
	}
	f := frameHeader{
		body:  binary.LittleEndian.Uint32(p[frameBodyOffset:]),
		other: binary.LittleEndian.Uint32(p[frameFlagsOffset:]),
	}
	if f.body < minSealed-FrameHeaderSize || f.body > maxBody {
		return frameHeader{}, fmt.Errorf("frame with a body of %d bytes: %w", f.body, format.ErrCorrupt)
	}
	return f, nil
}

// putNonce writes the nonce for offset. A position is sealed once under a pack's key, so no nonce repeats.
func putNonce(nonce *[nonceSize]byte, offset uint64, use uint32) {
	binary.LittleEndian.PutUint64(nonce[:], offset)
	binary.LittleEndian.PutUint32(nonce[8:], use)
}
