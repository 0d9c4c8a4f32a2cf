// Package stretch joins verified pieces that are neighbours in a file as well as in the opened frame, so that one write puts
// them into the file. Frames are filled in the order in which files are read, so most of a large file comes back in stretches
// of the full length.
//
// It refuses to know what files are, and writes nothing.
package stretch

import (
	"cmp"
	"slices"
)

// Stretch is what one write puts into a file.
type Stretch[F comparable] struct {
	File  F
	Off   uint64 // in the file
	From  uint64 // in the frame
	To    uint64
	Parts int64 // pieces
}

const (
	// Full is the length in bytes at which nothing is joined any more. While it is written, nobody else can write to the
	// file: stretches as long as frames took longer than single chunks.
	Full = 1 << 20
	// Most is how many wait for their neighbours. Where a frame is wanted in more places, what there is so far is written.
	Most = 256
	// lookBack is for how many of them a piece may be the next one: as many files have the same content beside each other.
	lookBack = 8
)

// Joiner joins the pieces of one frame. The zero value has none.
type Joiner[F comparable] struct{ all []Stretch[F] }

// Add puts n bytes at from of the frame, which belong at off of file, behind their neighbour, or begins a stretch with them.
// False: there are too many stretches, which are to be drained first.
func (j *Joiner[F]) Add(file F, off, from, n uint64) bool {
	for i := len(j.all) - 1; i >= max(0, len(j.all)-lookBack); i-- {
		s := &j.all[i]
		if s.File == file && s.To-s.From < Full && s.To == from && s.Off+(s.To-s.From) == off {
			s.To += n
			s.Parts++
			return true
		}
	}
	if len(j.all) == Most {
		return false
	}
	j.all = append(j.all, Stretch[F]{File: file, Off: off, From: from, To: from + n, Parts: 1})
	return true
}

// Drain yields the stretches, those of each file in ascending order, and forgets them.
func (j *Joiner[F]) Drain(yield func(*Stretch[F])) {
	slices.SortStableFunc(j.all, func(a, b Stretch[F]) int { return cmp.Compare(a.Off, b.Off) })
	for i := range j.all {
		yield(&j.all[i])
	}
	clear(j.all)
	j.all = j.all[:0]
}
