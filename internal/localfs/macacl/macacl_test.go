package macacl

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileSecurity builds a kauth_filesec with n entries as macOS lays it out.
func fileSecurity(n uint32) []byte {
	p := make([]byte, head+int(n)*entry)
	for i := range p {
		p[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(p, magic)
	binary.LittleEndian.PutUint32(p[countAt:], n)
	return p
}

// attributes is what getattrlist returns for value, with gap bytes between reference and data.
func attributes(value []byte, gap int) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(4+reference+gap+len(value)))
	p = binary.LittleEndian.AppendUint32(p, uint32(reference+gap))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(value)))
	p = append(p, make([]byte, gap)...)
	return append(append(p, value...), 0xee, 0xee) // the rest of a larger buffer
}

func TestACLRoundTrip(t *testing.T) {
	for _, n := range []uint32{0, 1, 5, maxCount} {
		for _, gap := range []int{0, 4} {
			value := fileSecurity(n)
			got, err := FromAttributes(attributes(value, gap))
			require.NoError(t, err)
			require.Equal(t, value, got)
			set, err := Attributes(got)
			require.NoError(t, err)
			require.EqualValues(t, reference, binary.LittleEndian.Uint32(set))
			require.EqualValues(t, len(value), binary.LittleEndian.Uint32(set[4:]))
			require.Equal(t, value, set[reference:])
		}
	}
}

func TestNoACLIsNil(t *testing.T) {
	empty, err := Attributes(nil)
	require.NoError(t, err)
	for _, buf := range [][]byte{attributes(nil, 0), attributes(empty[reference:], 0)} {
		got, err := FromAttributes(buf)
		require.NoError(t, err)
		require.Nil(t, got)
	}
}

func TestDamagedACLIsAnError(t *testing.T) {
	good := attributes(fileSecurity(2), 0)
	for name, damage := range map[string]func(p []byte) []byte{
		"short":     func(p []byte) []byte { return p[:11] },
		"cut":       func(p []byte) []byte { return p[:40] },
		"magic":     func(p []byte) []byte { p[12]++; return p },
		"too many":  func(p []byte) []byte { binary.LittleEndian.PutUint32(p[12+countAt:], 200); return p },
		"more":      func(p []byte) []byte { p[12+countAt] = 3; return p },
		"offset":    func(p []byte) []byte { binary.LittleEndian.PutUint32(p[4:], 1<<31); return p },
		"negative":  func(p []byte) []byte { binary.LittleEndian.PutUint32(p[4:], ^uint32(0)); return p },
		"length":    func(p []byte) []byte { binary.LittleEndian.PutUint32(p[8:], 1<<31); return p },
		"total big": func(p []byte) []byte { binary.LittleEndian.PutUint32(p, 1<<31); return p },
	} {
		_, err := FromAttributes(damage(append([]byte(nil), good...)))
		require.Error(t, err, name)
	}
	_, err := Attributes(append(fileSecurity(1), 0))
	require.ErrorIs(t, err, ErrForeign)
	_, err = Attributes([]byte("foreign"))
	require.ErrorIs(t, err, ErrForeign)
}

func FuzzACL(f *testing.F) {
	f.Add(attributes(fileSecurity(3), 0))
	f.Add(attributes(nil, 4))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, p []byte) {
		value, err := FromAttributes(p)
		if err != nil || value == nil {
			return
		}
		_, err = Attributes(value)
		require.NoError(t, err, "what was read can be set")
	})
}
