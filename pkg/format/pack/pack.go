// Package pack is the codec of packs, the stored files that hold blobs: a header with a random salt, frames (blobs
// compressed and sealed together), a sealed trailer that lists them, and a fixed footer. SPEC.md beside this file is
// the exact description.
//
// Compressing, sealing and opening are separate steps, so that many workers compress while one short critical section
// seals, and a reader opens single frames of packs it knows from an index. The package does no I/O; what a blob means,
// where packs are kept and which blobs exist already is none of its business.
package pack

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Kind says what the blobs of a pack are. The values are stored.
type Kind uint8

// The kinds of packs. They are kept apart because trees are read again and again, and data hardly ever.
const (
	Data  Kind = 1 // chunks of files
	Trees Kind = 2 // pages of trees and of lists of chunks
)

// String returns the kind in one word.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Trees:
		return "trees"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Valid reports whether k is a kind this program knows.
func (k Kind) Valid() bool { return k == Data || k == Trees }

// Codec says how the data of a frame is compressed. The values are stored.
type Codec uint8

// The codecs of a frame.
const (
	Stored Codec = 0 // as it is
	Zstd   Codec = 1 // one or more zstd frames
)

// String returns the codec in one word.
func (c Codec) String() string {
	switch c {
	case Stored:
		return "stored"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", uint8(c))
}

// Blob is one entry of a frame.
type Blob struct {
	ID  format.ID
	Len uint32 // bytes
}

// Frame locates blobs that are compressed and sealed together.
type Frame struct {
	Offset uint32 // of the frame's header, in bytes from the start of the pack
	Sealed uint32 // bytes in the pack: frame header, body and tag
	Raw    uint32 // bytes of all blobs together: the sum of their Len
	Codec  Codec
	Blobs  []Blob // in the order in which they lie in the frame
}

// Table is what a pack holds, and what is needed to open it.
type Table struct {
	Kind   Kind
	Salt   [SaltSize]byte
	Frames []Frame // by ascending offset
}

// Payload is a frame that is compressed and not yet sealed.
type Payload struct {
	Codec Codec
	Blobs []Blob
	Raw   uint32 // bytes before compression: the sum of the lengths of Blobs
	Data  []byte // the blobs one after the other, compressed as Codec says
}
