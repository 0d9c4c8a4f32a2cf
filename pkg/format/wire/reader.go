// Package wire holds the binary primitives of all formats of tidemark: little-endian integers, varints, length-prefixed
// byte strings, and records of tagged fields. Appending never fails. Reading is bounds-checked, keeps its first error,
// never panics and allocates in proportion to its input.
package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// MaxUvarint is the length of the longest uvarint in bytes: 64 bits in groups of seven.
const MaxUvarint = binary.MaxVarintLen64

// Reader reads primitives from the start of a byte slice. Its first error is kept: from then on every method returns a
// zero value, so that a decoder reads straight through and calls Err or Done once at the end. Where a decoder sizes an
// allocation by a number it read, it compares that number with Len first.
type Reader struct {
	rest []byte // not yet read; nil after an error
	size int    // length of the whole input, for positions in errors
	err  error
}

// NewReader returns a Reader of p, which it aliases.
func NewReader(p []byte) *Reader { return &Reader{rest: p, size: len(p)} }

// Reset makes r read p from its start and clears the error, so that one Reader serves many inputs.
func (r *Reader) Reset(p []byte) { *r = Reader{rest: p, size: len(p)} }

// Len returns the number of unread bytes; 0 after an error.
func (r *Reader) Len() int { return len(r.rest) }

// Err returns the first error. It wraps format.ErrCorrupt, or is the argument of FailWith.
func (r *Reader) Err() error { return r.err }

// Fail records an error at the current position, unless there is one already. A decoder calls it for a well-formed but
// invalid value. The message is formatted as by fmt.Sprintf; format.ErrCorrupt is added.
func (r *Reader) Fail(message string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %s: %w", r.size-len(r.rest), fmt.Sprintf(message, args...), format.ErrCorrupt)
		r.rest = nil
	}
}

// FailWith records err, unless there is an error already. A decoder uses it for errors of DecodeFields on a record
// inside a field, which may be format.ErrUnsupported. It does nothing if err is nil.
func (r *Reader) FailWith(err error) {
	if r.err == nil && err != nil {
		r.err = err
		r.rest = nil
	}
}

// Done returns the first error, or an error if bytes are left.
func (r *Reader) Done() error {
	if len(r.rest) > 0 {
		r.Fail("%d bytes too many", len(r.rest))
	}
	return r.err
}

// Uvarint reads an unsigned varint. Only the shortest form of a number is accepted, so that one value has one encoding.
func (r *Reader) Uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(v)
	}
	return r.longUvarint()
}

func (r *Reader) longUvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	switch {
	case n == 0:
		r.Fail("input ends inside a varint")
		return 0
	case n < 0:
		r.Fail("varint exceeds 64 bits")
		return 0
	case r.rest[n-1] == 0:
		r.Fail("varint is not in its shortest form")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// UvarintMax reads an unsigned varint and fails if it exceeds limit.
func (r *Reader) UvarintMax(limit uint64) uint64 {
	v := r.Uvarint()
	if v > limit {
		r.Fail("number %d exceeds %d", v, limit)
		return 0
	}
	return v
}

// Count reads a number of rows of at least row bytes. It fails if so many cannot follow, which bounds the allocation
// for them.
func (r *Reader) Count(row uint64) uint64 {
	count := r.Uvarint()
	if count > uint64(r.Len())/row {
		r.Fail("%d rows in %d bytes", count, r.Len())
		return 0
	}
	return count
}

// Varint reads a zigzag-mapped signed varint.
func (r *Reader) Varint() int64 {
	u := r.Uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// Take returns the next n bytes, aliasing the input; nil if fewer are left. Its capacity ends with it.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail("input ends early: want %d bytes, %d are left", n, len(r.rest))
		return nil
	}
	p := r.rest[:n:n]
	r.rest = r.rest[n:]
	return p
}

// Bytes reads a length as a uvarint and returns that many bytes, aliasing the input.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.rest)) {
		r.Fail("input ends early: want %d bytes, %d are left", n, len(r.rest))
		return nil
	}
	return r.Take(int(n))
}

// String is Bytes as a copied string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail("input ends early: want 1 byte, 0 are left")
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

// Uint16 reads two bytes, little-endian.
func (r *Reader) Uint16() uint16 {
	if p := r.Take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

// Uint32 reads four bytes, little-endian.
func (r *Reader) Uint32() uint32 {
	if p := r.Take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

// Uint64 reads eight bytes, little-endian.
func (r *Reader) Uint64() uint64 {
	if p := r.Take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// ID reads format.IDSize bytes.
func (r *Reader) ID() (id format.ID) {
	copy(id[:], r.Take(format.IDSize))
	return id
}

// IDs reads IDs up to the end of the input: the value of a field written by Fields.IDs. Nil if there are none.
func (r *Reader) IDs() []format.ID {
	if r.Len() == 0 {
		return nil
	}
	if r.Len()%format.IDSize != 0 {
		r.Fail("list of ids has %d bytes, which is no multiple of %d", r.Len(), format.IDSize)
		return nil
	}
	ids := make([]format.ID, r.Len()/format.IDSize)
	for i := range ids {
		ids[i] = r.ID()
	}
	return ids
}

// Strings reads strings up to the end of the input: the value of a field written by Fields.Strings. Nil if there are
// none.
func (r *Reader) Strings() []string {
	var list []string
	for r.Len() > 0 {
		list = append(list, r.String())
	}
	return list
}
