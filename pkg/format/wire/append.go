package wire

import "encoding/binary"

// AppendUvarint appends v as LEB128: seven bits a byte, least significant first, the top bit set on all but the last.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendVarint appends v zigzag-mapped (0, -1, 1, -2, ... become 0, 1, 2, 3, ...) and then as a uvarint.
func AppendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

// AppendBytes appends the length of p as a uvarint, and p.
func AppendBytes(dst, p []byte) []byte { return append(AppendUvarint(dst, uint64(len(p))), p...) }

// AppendString appends the length of s in bytes as a uvarint, and s.
func AppendString(dst []byte, s string) []byte {
	return append(AppendUvarint(dst, uint64(len(s))), s...)
}

// AppendUint16 appends v in two bytes, little-endian.
func AppendUint16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }

// AppendUint32 appends v in four bytes, little-endian.
func AppendUint32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }
