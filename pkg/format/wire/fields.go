package wire

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Fields writes or reads a record of tagged fields. Each field is its tag as a uvarint and its value, preceded by its
// length. Tags ascend strictly. A reader skips an unknown even tag and refuses an unknown odd one. So a new field gets
// an odd tag exactly if an older program would misunderstand the record without it.
//
// A codec has one list of its fields for both directions: it calls a method for each, by ascending tag, with the value
// that it has. The method writes the value, or reads the field if it is there. It returns the value that it wrote or
// read.
//
// A field whose value is zero or empty is left out: an absent field means the zero value. The one exception is Bytes
// with a value that is empty but not nil, which is written.
type Fields struct {
	dst  []byte
	last uint64 // tag of the last field of the codec, in the record or not
	busy bool   // a method was called for a field

	reading bool
	in      Reader // of the record, behind the next field
	found   bool   // there is a next field: tag and value
	tag     uint64
	value   Reader
	err     error
}

// NewFields starts a record that is appended to dst.
func NewFields(dst []byte) *Fields { return &Fields{dst: dst} }

// Finish returns dst with the record appended.
func (f *Fields) Finish() []byte { return f.dst }

// ReadFields reads a record that fills p. An unknown odd tag ends the reading with format.ErrUnsupported. Every other
// error wraps format.ErrCorrupt: tags that do not ascend strictly, lengths beyond the input, and invalid values.
func ReadFields(p []byte, fields func(*Fields)) error {
	f := &Fields{reading: true}
	f.in.Reset(p)
	f.next()
	fields(f)
	for f.found {
		f.skip()
	}
	return f.err
}

// next goes on to the next field of the record that is read.
func (f *Fields) next() {
	last, first := f.tag, !f.found
	if f.found = f.err == nil && f.in.Len() > 0; !f.found {
		return
	}
	if f.tag = f.in.Uvarint(); !first && f.tag <= last {
		f.in.Fail("field %d after field %d", f.tag, last)
	}
	f.value.Reset(f.in.Bytes())
	f.err = f.in.Err()
	f.found = f.err == nil
}

// skip skips an unknown field.
func (f *Fields) skip() {
	if f.tag%2 == 1 {
		f.err = fmt.Errorf("field %d: %w", f.tag, format.ErrUnsupported)
	}
	f.next()
}

// field calls read, which reads all of the value, if the field is read and is there. It checks that tags ascend, also
// where values are left out. A wrong order is a mistake in the calling codec, independent of the data, so every test of
// that codec finds it.
func (f *Fields) field(tag uint64, read func(*Reader)) {
	if f.busy && tag <= f.last {
		panic(fmt.Sprintf("wire: field %d after field %d: tags must ascend", tag, f.last))
	}
	f.busy, f.last = true, tag
	for f.found && f.tag < tag {
		f.skip()
	}
	if !f.found || f.tag != tag {
		return
	}
	read(&f.value)
	if err := f.value.Done(); err != nil {
		f.err = fmt.Errorf("field %d: %w", tag, err)
	}
	f.next()
}

// put writes a field that is not left out.
func (f *Fields) put(tag uint64, there bool, value []byte) {
	if there && !f.reading {
		f.dst = AppendBytes(AppendUvarint(f.dst, tag), value)
	}
}

// Uint is a uvarint.
func (f *Fields) Uint(tag, v uint64) uint64 { return f.UintMax(tag, v, math.MaxUint64) }

// UintMax is a uvarint that a reader refuses above a limit.
func (f *Fields) UintMax(tag, v, limit uint64) uint64 {
	f.field(tag, func(r *Reader) { v = r.UvarintMax(limit) })
	f.put(tag, v != 0, AppendUvarint(nil, v))
	return v
}

// Flag is a uvarint that is 1 if v is set. A reader takes any other number than 0 for that, up to a limit.
func (f *Fields) Flag(tag uint64, v bool, limit uint64) bool {
	n := uint64(0)
	if v {
		n = 1
	}
	return f.UintMax(tag, n, limit) != 0
}

// Int is a zigzag varint.
func (f *Fields) Int(tag uint64, v int64) int64 {
	f.field(tag, func(r *Reader) { v = r.Varint() })
	f.put(tag, v != 0, AppendVarint(nil, v))
	return v
}

// Value writes p unless it is nil, or has read read all of the value. The value of the field is p itself, without a
// second length.
func (f *Fields) Value(tag uint64, p []byte, read func(*Reader)) {
	f.field(tag, read)
	f.put(tag, p != nil, p)
}

// Bytes is Value for bytes of any form and number. Those that are read alias the input.
func (f *Fields) Bytes(tag uint64, p []byte) []byte {
	f.Value(tag, p, func(r *Reader) { p = r.Rest() })
	return p
}

// Array is Value for a fixed number of bytes, which are read into p. It reports whether the field was read.
func (f *Fields) Array(tag uint64, p []byte) (read bool) {
	f.Value(tag, p, func(r *Reader) { read = copy(p, r.Take(len(p))) > 0 })
	return read
}

// String is a string, without a second length.
func (f *Fields) String(tag uint64, s string) string {
	f.field(tag, func(r *Reader) { s = string(r.Rest()) })
	f.put(tag, s != "", []byte(s))
	return s
}

// Strings is strings, each preceded by its length.
func (f *Fields) Strings(tag uint64, list []string) []string {
	var value []byte
	for _, s := range list {
		value = AppendString(value, s)
	}
	f.Value(tag, value, func(r *Reader) { list = r.Strings() })
	return list
}

// ID is an ID.
func (f *Fields) ID(tag uint64, id format.ID) format.ID {
	f.field(tag, func(r *Reader) { id = r.ID() })
	f.put(tag, !id.IsZero(), id[:])
	return id
}

// IDs is the concatenated bytes of IDs.
func (f *Fields) IDs(tag uint64, ids []format.ID) []format.ID {
	f.Value(tag, join(ids), func(r *Reader) { ids = r.IDs() })
	return ids
}

// Set is IDs without an order, which is ascending in the record, each once. The error of a reader calls them what.
func (f *Fields) Set(tag uint64, ids []format.ID, what string) []format.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, format.ID.Compare)
	ids = slices.Compact(ids)
	f.Value(tag, join(ids), func(r *Reader) {
		ids = r.IDs()
		for i := 1; i < len(ids); i++ {
			if ids[i-1].Compare(ids[i]) >= 0 {
				r.Fail("%s do not ascend", what)
			}
		}
	})
	return ids
}

func join(ids []format.ID) (p []byte) {
	for i := range ids {
		p = append(p, ids[i][:]...)
	}
	return p
}

// Record is a record inside this one, which is left out without fields.
func (f *Fields) Record(tag uint64, fields func(*Fields)) {
	var inner Fields
	if !f.reading {
		fields(&inner)
	}
	f.Value(tag, inner.dst, func(r *Reader) { r.FailWith(ReadFields(r.Rest(), fields)) })
}

// Rest returns the rest of the input, aliasing it: the value of a field of Fields.Bytes.
func (r *Reader) Rest() []byte { return r.Take(r.Len()) }
