package extsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Buffer gathers the entries of one run in memory, in any order. Of several with one key, the last counts.
type Buffer struct {
	KeySize int // 8 or more
	arena   []byte
	entries []buffered
}

// buffered is an entry in the arena. The first bytes of a key nearly always decide a comparison.
type buffered struct {
	first    uint64 // bytes of the key
	off, end uint32 // of key and value in the arena
}

// Overhead is how many bytes of memory an entry takes besides its key and value.
const Overhead = 16

// Add adds an entry, which is copied.
func (b *Buffer) Add(key, value []byte) {
	off := len(b.arena)
	b.arena = append(append(b.arena, key...), value...)
	b.entries = append(b.entries, buffered{binary.BigEndian.Uint64(key), uint32(off), uint32(len(b.arena))})
}

// Len returns the number of entries.
func (b *Buffer) Len() int { return len(b.entries) }

// Size returns the bytes of memory that the entries take.
func (b *Buffer) Size() int { return len(b.arena) + Overhead*len(b.entries) }

// Reset removes all entries and keeps the memory.
func (b *Buffer) Reset() { b.arena, b.entries = b.arena[:0], b.entries[:0] }

func (b *Buffer) key(e *buffered) []byte   { return b.arena[e.off:][:b.KeySize] }
func (b *Buffer) value(e *buffered) []byte { return b.arena[int(e.off)+b.KeySize : e.end] }

// sort orders the entries by key and keeps the last of each key.
func (b *Buffer) sort() {
	slices.SortFunc(b.entries, func(x, y buffered) int {
		if x.first != y.first {
			return cmp.Compare(x.first, y.first)
		}
		return cmp.Or(bytes.Compare(b.key(&x), b.key(&y)), cmp.Compare(y.off, x.off))
	})
	b.entries = slices.CompactFunc(b.entries, func(x, y buffered) bool {
		return x.first == y.first && bytes.Equal(b.key(&x), b.key(&y))
	})
}

// source sorts the entries and yields them.
func (b *Buffer) source() Source {
	b.sort()
	at := 0
	return func() (key, value []byte, ok bool, err error) {
		if ok = at < len(b.entries); ok {
			e := &b.entries[at]
			key, value = b.key(e), b.value(e)
			at++
		}
		return key, value, ok, nil
	}
}
