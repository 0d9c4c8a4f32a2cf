package cachefile

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// sumSize is the length of a checksum in bytes.
const sumSize = 4

// Sum is the checksum of a value under its key.
func Sum(key, value []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, value)
}

// PutSummed stores a value followed by its checksum. bbolt pages have no checksum of their own.
func PutSummed(b *bolt.Bucket, key, value []byte) error {
	buf := make([]byte, 0, len(value)+sumSize) // bbolt keeps it until the commit
	return b.Put(key, binary.LittleEndian.AppendUint32(append(buf, value...), Sum(key, value)))
}

// Summed returns the value in p, which PutSummed has written. ok is false if p is not n bytes and a checksum long, or
// the checksum does not match.
func Summed(key, p []byte, n int) (value []byte, ok bool) {
	if len(p) != n+sumSize || n < 0 {
		return nil, false
	}
	value = p[:n]
	return value, binary.LittleEndian.Uint32(p[n:]) == Sum(key, value)
}

// valuePrefix precedes the names of values in the meta bucket.
const valuePrefix = "value "

// SetValue stores a small value under a name; nil removes it.
func (f *File) SetValue(name string, value []byte) error {
	return f.Update("keep a value in the cache", func(tx *bolt.Tx) error { return PutValue(tx, name, value) })
}

// PutValue is SetValue within a transaction.
func PutValue(tx *bolt.Tx, name string, value []byte) error {
	key := []byte(valuePrefix + name)
	if value == nil {
		return Bucket(tx, bucketMeta).Delete(key)
	}
	return PutSummed(Bucket(tx, bucketMeta), key, value)
}

// Value returns what SetValue stored. It returns nil if there is no such value or the value is damaged.
func (f *File) Value(name string) (value []byte, err error) {
	err = f.View("read a value of the cache", func(tx *bolt.Tx) error {
		key := []byte(valuePrefix + name)
		p := Bucket(tx, bucketMeta).Get(key)
		if v, ok := Summed(key, p, len(p)-sumSize); ok {
			value = slices.Clone(v)
		}
		return nil
	})
	return value, err
}
