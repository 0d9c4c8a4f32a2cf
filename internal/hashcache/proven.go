package hashcache

import (
	"encoding/binary"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// sumSize is the length of a checksum, which stands before the value that it proves, or behind it.
const sumSize = 4

// sum is the checksum of a value under its key.
func sum(key, value []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, value)
}

// putProven puts a value with its checksum behind it.
func putProven(b *bolt.Bucket, key, value []byte) error {
	room := make([]byte, 0, len(value)+sumSize) // bbolt keeps it until the commit
	return b.Put(key, binary.LittleEndian.AppendUint32(append(room, value...), sum(key, value)))
}

// proven returns the value of what putProven has put, if it is n bytes long and as it was put.
func proven(key, p []byte, n int) (value []byte, ok bool) {
	if len(p) != n+sumSize {
		return nil, false
	}
	value = p[:n]
	return value, binary.LittleEndian.Uint32(p[n:]) == sum(key, value)
}
