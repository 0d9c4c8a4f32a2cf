package wire

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Fields writes a record of tagged fields. Each field is its tag as a uvarint and its value, preceded by its length.
// Tags ascend strictly. A reader skips an unknown even tag and refuses an unknown odd one. So a new field gets an odd
// tag exactly if an older program would misunderstand the record without it.
//
// A field whose value is zero or empty is left out: an absent field means the zero value. The one exception is Bytes
// with a value that is empty but not nil, which is written.
type Fields struct {
	dst  []byte
	last uint64 // tag of the last field, written or not
	busy bool   // a method was called for a field
}

// NewFields starts a record that is appended to dst.
func NewFields(dst []byte) *Fields { return &Fields{dst: dst} }

// Finish returns dst with the record appended.
func (f *Fields) Finish() []byte { return f.dst }

// next checks that tags ascend, also where values are left out. A wrong order is a mistake in the calling encoder,
// independent of the data, so every test of that encoder finds it.
func (f *Fields) next(tag uint64) {
	if f.busy && tag <= f.last {
		panic(fmt.Sprintf("wire: field %d after field %d: tags must ascend", tag, f.last))
	}
	f.busy, f.last = true, tag
}

func (f *Fields) put(tag uint64, value []byte) {
	f.dst = AppendBytes(AppendUvarint(f.dst, tag), value)
}

// Uint writes v as a uvarint.
func (f *Fields) Uint(tag, v uint64) {
	f.next(tag)
	if v != 0 {
		var buf [MaxUvarint]byte
		f.put(tag, AppendUvarint(buf[:0], v))
	}
}

// Int writes v as a zigzag varint.
func (f *Fields) Int(tag uint64, v int64) {
	f.next(tag)
	if v != 0 {
		var buf [MaxUvarint]byte
		f.put(tag, AppendVarint(buf[:0], v))
	}
}

// Bytes writes p unless it is nil. The value of the field is p itself, without a second length.
func (f *Fields) Bytes(tag uint64, p []byte) {
	f.next(tag)
	if p != nil {
		f.put(tag, p)
	}
}

// String writes s unless it is empty. The value of the field is s itself, without a second length.
func (f *Fields) String(tag uint64, s string) {
	f.next(tag)
	if s != "" {
		f.dst = AppendString(AppendUvarint(f.dst, tag), s)
	}
}

// Strings writes the strings of list, each preceded by its length, unless list is empty.
func (f *Fields) Strings(tag uint64, list []string) {
	f.next(tag)
	if len(list) == 0 {
		return
	}
	var value []byte
	for _, s := range list {
		value = AppendString(value, s)
	}
	f.put(tag, value)
}

// ID writes id unless it is zero.
func (f *Fields) ID(tag uint64, id format.ID) {
	f.next(tag)
	if !id.IsZero() {
		f.put(tag, id[:])
	}
}

// IDs writes the concatenated bytes of ids, unless ids is empty.
func (f *Fields) IDs(tag uint64, ids []format.ID) {
	f.next(tag)
	if len(ids) == 0 {
		return
	}
	f.dst = AppendUvarint(AppendUvarint(f.dst, tag), uint64(len(ids))*format.IDSize)
	for i := range ids {
		f.dst = append(f.dst, ids[i][:]...)
	}
}

// Record writes the fields that fill adds as a record inside this one, unless it adds none.
func (f *Fields) Record(tag uint64, fill func(*Fields)) {
	f.next(tag)
	inner := NewFields(nil)
	fill(inner)
	if value := inner.Finish(); len(value) > 0 {
		f.put(tag, value)
	}
}

// DecodeFields reads a record of tagged fields that fills p. For each field it calls known, which reads all of value
// and returns true, or returns false for an unknown tag. Then an even tag is skipped, and an odd one ends the decoding
// with format.ErrUnsupported. Every other error wraps format.ErrCorrupt: tags that do not ascend strictly, lengths
// beyond the input, and values that known left partly unread or called Fail on.
func DecodeFields(p []byte, known func(tag uint64, value *Reader) (ok bool)) error {
	var r, value Reader
	r.Reset(p)
	last, first := uint64(0), true
	for r.Len() > 0 {
		tag := r.Uvarint()
		if !first && tag <= last {
			r.Fail("field %d after field %d", tag, last)
		}
		last, first = tag, false
		value.Reset(r.Bytes())
		if r.Err() != nil {
			break
		}
		if !known(tag, &value) {
			if tag%2 == 1 {
				return fmt.Errorf("field %d: %w", tag, format.ErrUnsupported)
			}
			continue
		}
		if err := value.Done(); err != nil {
			return fmt.Errorf("field %d: %w", tag, err)
		}
	}
	return r.Err()
}

// Text returns the rest of the input as a string: the value of a field written by Fields.String.
func (r *Reader) Text() string { return string(r.Take(r.Len())) }

// Rest returns the rest of the input, aliasing it: the value of a field written by Fields.Bytes or Fields.Record.
func (r *Reader) Rest() []byte { return r.Take(r.Len()) }
