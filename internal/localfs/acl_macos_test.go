package localfs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileSecurity builds a kauth_filesec with n entries as macOS lays it out.
func fileSecurity(n uint32) []byte {
	p := make([]byte, macACLHead+int(n)*macACLEntry)
	for i := range p {
		p[i] = byte(i)
	}
	binary.LittleEndian.PutUint32(p, macACLMagic)
	binary.LittleEndian.PutUint32(p[macACLCount:], n)
	return p
}

// attributes is what getattrlist returns for value, with gap bytes between reference and data.
func attributes(value []byte, gap int) []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(4+macACLReference+gap+len(value)))
	p = binary.LittleEndian.AppendUint32(p, uint32(macACLReference+gap))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(value)))
	p = append(p, make([]byte, gap)...)
	return append(append(p, value...), 0xee, 0xee) // the rest of a larger buffer
}

func TestACLRoundTrip(t *testing.T) {
	for _, n := range []uint32{0, 1, 5, macACLMax} {
		for _, gap := range []int{0, 4} {
			value := fileSecurity(n)
			got, err := parseMacACL(attributes(value, gap))
			require.NoError(t, err)
			require.Equal(t, value, got)
			set, err := formatMacACL(got)
			require.NoError(t, err)
			require.EqualValues(t, macACLReference, binary.LittleEndian.Uint32(set))
			require.EqualValues(t, len(value), binary.LittleEndian.Uint32(set[4:]))
			require.Equal(t, value, set[macACLReference:])
		}
	}
}

func TestNoACLIsNil(t *testing.T) {
	empty, err := formatMacACL(nil)
	require.NoError(t, err)
	for _, buf := range [][]byte{attributes(nil, 0), attributes(empty[macACLReference:], 0)} {
		got, err := parseMacACL(buf)
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
		"too many":  func(p []byte) []byte { binary.LittleEndian.PutUint32(p[12+macACLCount:], 200); return p },
		"more":      func(p []byte) []byte { p[12+macACLCount] = 3; return p },
		"offset":    func(p []byte) []byte { binary.LittleEndian.PutUint32(p[4:], 1<<31); return p },
		"negative":  func(p []byte) []byte { binary.LittleEndian.PutUint32(p[4:], ^uint32(0)); return p },
		"length":    func(p []byte) []byte { binary.LittleEndian.PutUint32(p[8:], 1<<31); return p },
		"total big": func(p []byte) []byte { binary.LittleEndian.PutUint32(p, 1<<31); return p },
	} {
		_, err := parseMacACL(damage(append([]byte(nil), good...)))
		require.Error(t, err, name)
	}
	_, err := formatMacACL(append(fileSecurity(1), 0))
	require.ErrorIs(t, err, errNotMacACL)
	_, err = formatMacACL([]byte("foreign"))
	require.ErrorIs(t, err, errNotMacACL)
}

func FuzzACL(f *testing.F) {
	f.Add(attributes(fileSecurity(3), 0))
	f.Add(attributes(nil, 4))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, p []byte) {
		value, err := parseMacACL(p)
		if err != nil || value == nil {
			return
		}
		_, err = formatMacACL(value)
		require.NoError(t, err, "what was read can be set")
	})
}
