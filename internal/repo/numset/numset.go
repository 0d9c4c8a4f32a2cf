// Package numset has sets of numbers that take a bit for each number there may be: which of the blobs of a repository were
// met, or are needed.
//
// It refuses to know what is numbered.
package numset

import (
	"math/bits"
	"sync/atomic"
)

// Set is a set of numbers that only grows. Its methods are safe for concurrent use.
type Set []atomic.Uint64

// New returns an empty set for the numbers below n.
func New(n uint64) Set { return make(Set, (n+63)/64) }

// Add reports whether n was not in the set.
func (s Set) Add(n uint64) bool {
	bit := uint64(1) << (n % 64)
	return s[n/64].Or(bit)&bit == 0
}

// Has reports whether n is in the set.
func (s Set) Has(n uint64) bool { return s[n/64].Load()&(1<<(n%64)) != 0 }

// Count returns how many numbers of [from, from+n) are in the set.
func (s Set) Count(from uint64, n uint32) (sum uint64) {
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
