// Package chunker finds content-defined cut points. They depend on the bytes around them and not on their position, so
// that an insertion or an overwrite changes only the chunks it touches. They also depend on a key: without it, the cuts
// of known content cannot be computed. That holds only while the lengths of chunks are secret; from many lengths of
// known content the key's table can be recovered.
//
// The package does no I/O, starts no goroutine and allocates nothing after New. The cut points are part of the
// repository format: SPEC.md is exact enough for another implementation, and docs/adr/0002-chunker.md gives the reasons
// for the algorithm and the sizes.
package chunker

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/zeebo/blake3"
)

// Algorithm is the number of this algorithm in a repository's config. A change to any cut point for any key, parameters
// and input needs a new number.
const Algorithm uint8 = 1

const (
	// Window is the number of bytes before a cut that determine it.
	Window = 64
	// LargestMax is the upper bound for Params.Max, in bytes, which a caller buffers.
	LargestMax = 64 << 20

	// hardness is by how many powers of two cutting is less likely than 1/Avg before the normal point, and more likely
	// after it.
	hardness = 2

	tableContext = "tidemark 2025 chunker: gear table of algorithm 1"
)

// Params are the sizes of chunks in bytes. They are stored in a repository's config. Repositories with different
// parameters share no cut points.
type Params struct {
	Min uint32 // no chunk but the last one of an input is shorter; at least Window
	Avg uint32 // the mean over random data, within 3 %; at least twice Min
	Max uint32 // no chunk is longer; at least twice Avg, at most LargestMax
}

// DefaultParams are the sizes a new repository gets; the measurements behind them are in docs/adr/0002-chunker.md and
// docs/adr/0027-sizes.md.
func DefaultParams() Params { return Average(64 << 10) }

// Average returns sizes with that average, in the proportions of docs/adr/0002-chunker.md: half of it is the minimum,
// four times as much the maximum.
func Average(avg uint32) Params { return Params{Min: avg / 2, Avg: avg, Max: 4 * avg} }

// Validate returns an error that wraps ErrParams unless Window <= Min <= Avg/2 and Avg*2 <= Max <= LargestMax. The
// factors keep the distribution what Params promises: closer together, most cuts would be forced ones.
func (p Params) Validate() error {
	switch {
	case p.Min < Window:
		return fmt.Errorf("minimum chunk size of %d bytes is below %d: %w", p.Min, Window, ErrParams)
	case p.Avg < 2*p.Min || p.Min > LargestMax:
		return fmt.Errorf("average chunk size of %d bytes is below twice the minimum of %d: %w", p.Avg, p.Min, ErrParams)
	case p.Max > LargestMax:
		return fmt.Errorf("maximum chunk size of %d bytes is above %d: %w", p.Max, LargestMax, ErrParams)
	case p.Max/2 < p.Avg:
		return fmt.Errorf("maximum chunk size of %d bytes is below twice the average of %d: %w", p.Max, p.Avg, ErrParams)
	}
	return nil
}

// normal returns the length from which on cutting is easy, placed so that the mean over random data is Avg. With cuts
// at a rate of 1/(4 Avg) before and 4/Avg behind it, the mean is Avg where exp(-(normal-Min)/(4 Avg)) = 1 - q/Avg; this
// is the solution to the second order in q, which is within 1 % and needs integers only.
func (p Params) normal() uint64 {
	least, mean := uint64(p.Min), uint64(p.Avg)
	q := (3*mean - 4*least) / 15
	return least + 4*q + 2*q*q/mean
}

// Chunker cuts with one key and one set of parameters. It is immutable and safe for concurrent use.
type Chunker struct {
	gear   [256]uint64
	min    int
	normal int // from this length on cutting is easy
	max    int
	hard   uint64 // a cut before normal needs a hash below this
	easy   uint64 // a cut from normal on needs a hash below this
}

// New derives a chunker from key. The error wraps ErrParams when p cannot be used.
func New(key [32]byte, p Params) (*Chunker, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	c := &Chunker{
		min:    int(p.Min),
		normal: int(p.normal()),
		max:    int(p.Max),
		hard:   threshold(uint64(p.Avg) << hardness),
		easy:   threshold(uint64(p.Avg) >> hardness),
	}
	if err := fillTable(&c.gear, key); err != nil {
		return nil, err
	}
	return c, nil
}

// threshold returns floor(2^64 / n): a uniform 64-bit hash is below it once in n times. n must be above 1.
func threshold(n uint64) uint64 {
	quotient, _ := bits.Div64(1, 0, n)
	return quotient
}

// fillTable draws the 256 gear values from the key. BLAKE3's key derivation is a pseudo-random function of the key, so
// the table looks random without the key.
func fillTable(gear *[256]uint64, key [32]byte) error {
	h := blake3.NewDeriveKey(tableContext)
	if _, err := h.Write(key[:]); err != nil {
		return fmt.Errorf("derive gear table: %w", err)
	}
	var stream [8 * 256]byte
	if _, err := h.Digest().Read(stream[:]); err != nil {
		return fmt.Errorf("derive gear table: %w", err)
	}
	for i := range gear {
		gear[i] = binary.LittleEndian.Uint64(stream[8*i:])
	}
	return nil
}

// Max returns the longest chunk in bytes. A buffer of this size always suffices for Next.
func (c *Chunker) Max() int { return c.max }

// Next returns the length in bytes of the first chunk of p, which begins at a cut or at the start of the input. final
// says that the input ends with p; the rest after the last cut is then a chunk of any length from 1. The result is 0 if
// p is too short, which happens only if len(p) < Max and not final, or if p is empty. It does not depend on the bytes
// after the cut.
//
// A call that returns 0 has scanned all of p: fill p up to Max before calling, not byte by byte.
func (c *Chunker) Next(p []byte, final bool) int {
	if len(p) > c.max {
		p = p[:c.max]
	}
	if n := c.cut(p); n > 0 {
		return n
	}
	if final || len(p) == c.max {
		return len(p)
	}
	return 0
}

// cut returns the smallest length of p, at most c.max bytes, at which the content gives a cut, or 0.
func (c *Chunker) cut(p []byte) int {
	if len(p) < c.min {
		return 0
	}
	// The sum over the last 64 bytes: older ones have been shifted out. Rolling it in from before the minimum makes the
	// decision about a place independent of where the chunk began.
	var hash uint64
	for _, b := range p[c.min-Window : c.min-1] {
		hash = hash<<1 + c.gear[b]
	}
	from := c.min - 1
	if normal := min(c.normal, len(p)+1) - 1; from < normal {
		n := 0
		if n, hash = scan(&c.gear, p[from:normal], hash, c.hard); n > 0 {
			return from + n
		}
		from = normal
	}
	if from < len(p) {
		if n, _ := scan(&c.gear, p[from:], hash, c.easy); n > 0 {
			return from + n
		}
	}
	return 0
}
