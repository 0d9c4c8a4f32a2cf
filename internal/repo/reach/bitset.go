package reach

import (
	"math/bits"
	"sync/atomic"
)

// Bitset is a set of numbers that only grows, with one bit for each possible number. Its methods are safe for
// concurrent use.
type Bitset []atomic.Uint64

// NewBitset returns an empty set for the numbers below n.
func NewBitset(n uint64) Bitset { return make(Bitset, (n+63)/64) }

// Add reports whether n was not in the set.
func (s Bitset) Add(n uint64) bool {
	bit := uint64(1) << (n % 64)
	return s[n/64].Or(bit)&bit == 0
}

// Has reports whether n is in the set.
func (s Bitset) Has(n uint64) bool { return s[n/64].Load()&(1<<(n%64)) != 0 }

// Count returns how many numbers of [from, from+n) are in the set.
func (s Bitset) Count(from uint64, n uint32) (sum uint64) {
	for end := from + uint64(n); from < end; {
		word := s[from/64].Load() >> (from % 64)
		step := min(64-from%64, end-from)
		if step < 64 {
			word &= 1<<step - 1
		}
		sum += uint64(bits.OnesCount64(word))
		from += step
	}
	return sum
}
