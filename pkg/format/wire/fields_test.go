package wire_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// record has a field of every type.
type record struct {
	u     uint64
	i     int64
	b     []byte
	s     string
	list  []string
	flag  bool
	set   []format.ID
	id    format.ID
	ids   []format.ID
	inner uint64
}

func (r *record) encode(dst []byte) []byte {
	one, f := *r, wire.NewFields(dst)
	one.fields(f)
	return f.Finish()
}

func (r *record) fields(f *wire.Fields) {
	r.u = f.Uint(0, r.u)
	r.i = f.Int(1, r.i)
	r.b = f.Bytes(2, r.b)
	r.s = f.String(4, r.s)
	r.list = f.Strings(5, r.list)
	r.flag = f.Flag(9, r.flag, 1)
	r.set = f.Set(11, r.set, "ids")
	r.id = f.ID(300, r.id)
	r.ids = f.IDs(302, r.ids)
	f.Record(math.MaxUint64, func(f *wire.Fields) { r.inner = f.Uint(1, r.inner) })
}

var full = record{
	u: 1 << 63, i: -5, b: []byte{0, 1}, s: "tide\x00mark", list: []string{"", "a", "bc"}, flag: true,
	set: []format.ID{{1}, {9}},
	id:  format.ID{1}, ids: []format.ID{{2}, {}, {3}}, inner: 7,
}

func TestFieldsRoundTrip(t *testing.T) {
	p := full.encode([]byte("head"))
	require.Equal(t, "head", string(p[:4]))
	var got record
	require.NoError(t, wire.ReadFields(p[4:], got.fields))
	require.Equal(t, full, got)
}

// TestSetsHaveOneEncoding: whatever their order, and without repetitions.
func TestSetsHaveOneEncoding(t *testing.T) {
	ids := []format.ID{{2}, {1}, {2}}
	f := wire.NewFields(nil)
	require.Equal(t, []format.ID{{1}, {2}}, f.Set(1, ids, "ids"))
	require.Equal(t, []format.ID{{2}, {1}, {2}}, ids, "those of the caller stay as they are")
	var array [3]byte
	require.NoError(t, wire.ReadFields([]byte{4, 3, 'a', 'b', 'c'}, func(f *wire.Fields) {
		require.False(t, f.Array(2, array[:]))
		require.True(t, f.Array(4, array[:]))
	}))
	require.Equal(t, "abc", string(array[:]))
}

// TestZeroIsAbsent: zero values take no bytes, and an empty record is the zero value.
func TestZeroIsAbsent(t *testing.T) {
	var zero, got record
	require.Empty(t, zero.encode(nil))
	require.NoError(t, wire.ReadFields(nil, got.fields))
	require.Equal(t, zero, got)
	f := wire.NewFields(nil)
	f.Bytes(2, []byte{})
	require.Equal(t, []byte{2, 0}, f.Finish(), "empty bytes that are not nil are written")
}

func TestTagsMustAscend(t *testing.T) {
	for _, second := range []uint64{3, 2} {
		f := wire.NewFields(nil)
		f.Uint(3, 0)
		require.Panics(t, func() { f.Uint(second, 1) })
	}
}

func TestReadFieldsRefuses(t *testing.T) {
	field := func(p []byte, tag uint64, value ...byte) []byte {
		return wire.AppendBytes(wire.AppendUvarint(p, tag), value)
	}
	for name, c := range map[string]struct {
		input []byte
		want  error
	}{
		"unknown even tag":            {field(nil, 6, 1, 2, 3), nil},
		"unknown odd tag":             {field(nil, 7, 1), format.ErrUnsupported},
		"unknown odd tag, no value":   {field(nil, 7), format.ErrUnsupported},
		"unknown odd tag in a record": {field(nil, math.MaxUint64, field(nil, 3, 1)...), format.ErrUnsupported},
		"tag twice":                   {field(field(nil, 1, 2), 1, 2), format.ErrCorrupt},
		"tag 0 twice":                 {field(field(nil, 0, 2), 0, 2), format.ErrCorrupt},
		"tags descend":                {field(field(nil, 4, 'a'), 2, 2), format.ErrCorrupt},
		"unknown tags descend":        {field(field(nil, 8, 'a'), 6, 2), format.ErrCorrupt},
		"value too long":              {field(nil, 1, 2, 2), format.ErrCorrupt},
		"flag too large":              {field(nil, 9, 2), format.ErrCorrupt},
		"set descends":                {field(nil, 11, make([]byte, 2*format.IDSize)...), format.ErrCorrupt},
		"value empty":                 {field(nil, 1), format.ErrCorrupt},
		"value cut off":               {field(nil, 4, 'a', 'b')[:3], format.ErrCorrupt},
		"length missing":              {[]byte{4}, format.ErrCorrupt},
		"tag not shortest":            {[]byte{0x84, 0x00, 0}, format.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			var r record
			err := wire.ReadFields(c.input, r.fields)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want)
		})
	}
}

func FuzzReadFields(f *testing.F) {
	f.Add(full.encode(nil))
	f.Add([]byte{})
	f.Add([]byte{6, 1, 0, 7, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		var first record
		if err := wire.ReadFields(p, first.fields); err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		var second record
		require.NoError(t, wire.ReadFields(first.encode(nil), second.fields))
		require.Equal(t, first.encode(nil), second.encode(nil))
	})
}

// FuzzReader runs the methods that the first bytes choose over the others: whatever comes, no panic, and Len never
// grows.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, full.encode(nil))
	f.Fuzz(func(t *testing.T, script, p []byte) {
		r := wire.NewReader(p)
		calls := []func(){
			func() { r.Uvarint() },
			func() { r.Varint() },
			func() { r.Bytes() },
			func() { _ = r.String() },
			func() { r.Byte() },
			func() { r.Uint16() },
			func() { r.Uint32() },
			func() { r.Uint64() },
			func() { r.ID() },
			func() { r.Take(int(int8(len(p) * 31))) },
		}
		for _, b := range script {
			before, failed := r.Len(), r.Err() != nil
			calls[int(b)%len(calls)]()
			require.LessOrEqual(t, r.Len(), before)
			require.False(t, failed && r.Err() == nil, "an error went away")
		}
	})
}
