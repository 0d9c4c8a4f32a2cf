package wire_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// TestSpecExamples encodes and decodes every example of the specification.
func TestSpecExamples(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range spectest.Table(t, "SPEC.md", "Examples") {
		want, err := hex.DecodeString(row["Bytes"])
		require.NoError(t, err)
		seen[row["Primitive"]] = true
		r := wire.NewReader(want)
		unsigned, _ := strconv.ParseUint(row["Value"], 10, 64)
		signed, _ := strconv.ParseInt(row["Value"], 10, 64)
		switch row["Primitive"] {
		case "uint16":
			require.Equal(t, want, wire.AppendUint16(nil, uint16(unsigned)))
			require.EqualValues(t, unsigned, r.Uint16())
		case "uint32":
			require.Equal(t, want, wire.AppendUint32(nil, uint32(unsigned)))
			require.EqualValues(t, unsigned, r.Uint32())
		case "uint64":
			require.Equal(t, want, binary.LittleEndian.AppendUint64(nil, unsigned))
			require.Equal(t, unsigned, r.Uint64())
		case "uvarint":
			require.Equal(t, want, wire.AppendUvarint(nil, unsigned))
			require.Equal(t, unsigned, r.Uvarint())
		case "varint":
			require.Equal(t, want, wire.AppendVarint(nil, signed))
			require.Equal(t, signed, r.Varint())
		case "bytes":
			require.Equal(t, want, wire.AppendBytes(nil, []byte(row["Value"])))
			require.Equal(t, want, wire.AppendString(nil, row["Value"]))
			require.Equal(t, row["Value"], r.String())
		default:
			t.Fatalf("no such primitive: %s", row["Primitive"])
		}
		require.NoError(t, r.Done(), "%v", row)
	}
	require.Len(t, seen, 6)
}

// TestRoundTrip writes random values of every primitive and reads them back.
func TestRoundTrip(t *testing.T) {
	err := quick.Check(func(u uint64, v int64, b []byte, s string, h uint16, w uint32, id format.ID) bool {
		p := wire.AppendUvarint(nil, u)
		p = wire.AppendVarint(p, v)
		p = wire.AppendBytes(p, b)
		p = wire.AppendString(p, s)
		p = wire.AppendUint16(p, h)
		p = wire.AppendUint32(p, w)
		p = binary.LittleEndian.AppendUint64(p, u)
		p = append(p, id[:]...)
		p = append(p, 7)
		r := wire.NewReader(p)
		ok := r.Uvarint() == u && r.Varint() == v && string(r.Bytes()) == string(b) && r.String() == s &&
			r.Uint16() == h && r.Uint32() == w && r.Uint64() == u && r.ID() == id && r.Byte() == 7
		return ok && r.Done() == nil
	}, nil)
	require.NoError(t, err)
}

func TestVarintBoundaries(t *testing.T) {
	for shift := range 64 {
		for _, delta := range []uint64{^uint64(0), 0, 1} {
			u := uint64(1)<<shift + delta
			r := wire.NewReader(wire.AppendUvarint(nil, u))
			require.Equal(t, u, r.Uvarint())
			require.NoError(t, r.Done())
			r.Reset(wire.AppendVarint(nil, int64(u)))
			require.Equal(t, int64(u), r.Varint())
			require.NoError(t, r.Done())
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		input []byte
		read  func(*wire.Reader)
	}{
		"uvarint of no bytes":          {nil, func(r *wire.Reader) { r.Uvarint() }},
		"uvarint cut off":              {[]byte{0x80}, func(r *wire.Reader) { r.Uvarint() }},
		"uvarint not shortest":         {[]byte{0x80, 0x00}, func(r *wire.Reader) { r.Uvarint() }},
		"uvarint longer than shortest": {[]byte{0xff, 0x80, 0x00}, func(r *wire.Reader) { r.Uvarint() }},
		"uvarint of 65 bits": {
			[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
			func(r *wire.Reader) { r.Uvarint() },
		},
		"uvarint of 11 bytes": {
			[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
			func(r *wire.Reader) { r.Uvarint() },
		},
		"uvarint beyond a limit":  {[]byte{5}, func(r *wire.Reader) { r.UvarintMax(4) }},
		"bytes longer than input": {[]byte{3, 1, 2}, func(r *wire.Reader) { r.Bytes() }},
		"bytes of 2^64-1": {
			wire.AppendUvarint(nil, math.MaxUint64),
			func(r *wire.Reader) { r.Bytes() },
		},
		"negative take":   {[]byte{1}, func(r *wire.Reader) { r.Take(-1) }},
		"take too much":   {[]byte{1}, func(r *wire.Reader) { r.Take(2) }},
		"byte of none":    {nil, func(r *wire.Reader) { r.Byte() }},
		"uint16 cut off":  {[]byte{1}, func(r *wire.Reader) { r.Uint16() }},
		"uint32 cut off":  {[]byte{1, 2, 3}, func(r *wire.Reader) { r.Uint32() }},
		"uint64 cut off":  {make([]byte, 7), func(r *wire.Reader) { r.Uint64() }},
		"id cut off":      {make([]byte, 31), func(r *wire.Reader) { r.ID() }},
		"ids of 33 bytes": {make([]byte, 33), func(r *wire.Reader) { r.IDs() }},
		"strings cut off": {[]byte{1, 'a', 2, 'b'}, func(r *wire.Reader) { r.Strings() }},
		"bytes left over": {[]byte{1}, func(*wire.Reader) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := wire.NewReader(c.input)
			c.read(r)
			require.ErrorIs(t, r.Done(), format.ErrCorrupt)
			require.Zero(t, r.Len())
		})
	}
}

// TestErrorSticks: after an error nothing is read any more, and the first error stays.
func TestErrorSticks(t *testing.T) {
	r := wire.NewReader([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	require.EqualValues(t, 1, r.Byte())
	r.Fail("value %d is odd", 1)
	first := r.Err()
	require.ErrorContains(t, first, "byte 1: value 1 is odd")
	r.Fail("another")
	r.FailWith(format.ErrUnsupported)
	require.Zero(t, r.Byte())
	require.Zero(t, r.Uvarint())
	require.Zero(t, r.Uint64())
	require.Empty(t, r.Rest())
	require.Empty(t, r.Strings())
	require.Equal(t, first, r.Done())
	r.Reset([]byte{4})
	require.EqualValues(t, 4, r.Byte())
	require.NoError(t, r.Done())
	r.FailWith(nil)
	require.NoError(t, r.Err())
	r.FailWith(format.ErrUnsupported)
	require.ErrorIs(t, r.Done(), format.ErrUnsupported)
}

// TestTakeIsBounded: appending to what Take returned must not write into the rest of the input.
func TestTakeIsBounded(t *testing.T) {
	input := []byte{1, 2, 3}
	p := wire.NewReader(input).Take(1)
	_ = append(p, 9)
	require.Equal(t, []byte{1, 2, 3}, input)
}

func TestReadingDoesNotAllocate(t *testing.T) {
	p := wire.AppendUvarint(nil, 1<<40)
	p = wire.AppendBytes(p, make([]byte, 100))
	p = append(p, make([]byte, format.IDSize)...)
	var r wire.Reader
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Reset(p)
		r.Uvarint()
		r.Bytes()
		r.ID()
		if r.Done() != nil {
			panic("cannot read")
		}
	}))
}

// TestHostileLengths: numbers in the input do not become allocations.
func TestHostileLengths(t *testing.T) {
	for _, n := range []uint64{1 << 20, 1 << 31, 1 << 32, 1 << 62, math.MaxUint64} {
		p := wire.AppendUvarint(nil, n)
		p = append(p, "short"...)
		require.Less(t, spectest.Allocated(func() {
			r := wire.NewReader(p)
			_ = r.String()
			_ = wire.NewReader(p).Strings()
			_ = wire.ReadFields(append([]byte{2}, p...), func(f *wire.Fields) { f.Bytes(2, nil) })
		}), uint64(64<<10))
	}
}
