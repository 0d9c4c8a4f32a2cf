// Package pack is the codec of packs, the stored files that hold blobs: a header with a random salt, frames (blobs
// compressed and sealed together), a sealed trailer that lists them, and a fixed footer. SPEC.md beside this file is
// the exact description.
//
// Compressing, sealing and opening are separate steps, so that many workers compress while one short critical section
// seals, and a reader opens single frames of packs that an index names. The package does no I/O.
package pack

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Kind is the kind of blobs in a pack. The values are stored.
type Kind uint8

// The kinds of packs. They are separate because trees are read often and data rarely.
const (
	Data  Kind = 1 // chunks of files
	Trees Kind = 2 // pages of trees and of lists of chunks

	// Parity is reserved for redundant data. Version 1 does not read such packs.
	Parity Kind = 3
	// Lookup is reserved for tables of the places of blobs, in a folder of their own.
	Lookup Kind = 4
)

// String returns the kind in one word.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Trees:
		return "trees"
	case Parity:
		return "parity"
	case Lookup:
		return "look-up table"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Valid reports whether this program reads packs of kind k.
func (k Kind) Valid() bool { return k == Data || k == Trees }

// Codec is how the data of a frame is compressed. The values are stored.
type Codec uint8

// The codecs of a frame.
const (
	Stored Codec = 0 // uncompressed
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

// Frame is the location of blobs that are compressed and sealed together.
type Frame struct {
	Offset uint32 // of the frame's header, in bytes from the start of the pack
	Sealed uint32 // bytes in the pack: frame header, body and tag
	Raw    uint32 // sum of the Len of all blobs
	Codec  Codec
	Blobs  []Blob // in their order in the frame
}

// Table is the content of a pack, with the data needed to open it.
type Table struct {
	Kind   Kind
	Salt   [SaltSize]byte
	Frames []Frame // by ascending offset
}

// Blobs returns the number of blobs.
func (t *Table) Blobs() (n int) {
	for i := range t.Frames {
		n += len(t.Frames[i].Blobs)
	}
	return n
}

// IDs returns the IDs of the blobs in the order of the table.
func (t *Table) IDs() []format.ID {
	ids := make([]format.ID, 0, t.Blobs())
	for i := range t.Frames {
		for _, b := range t.Frames[i].Blobs {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

// Payload is a frame that is compressed but not sealed.
type Payload struct {
	Codec Codec
	Blobs []Blob
	Raw   uint32 // bytes before compression: the sum of the lengths of Blobs
	Data  []byte // the concatenated blobs, compressed with Codec
}
