package restore

import (
	"cmp"
	"slices"
)

// coalescedWrite is one write of verified data to a file.
type coalescedWrite struct {
	file   *file
	off    uint64 // in the file
	from   uint64 // range in the frame
	to     uint64
	chunks int64
}

const (
	// maxCoalesced is the length in bytes from which nothing is appended. A write locks the file against other writers, so
	// writes as long as whole frames were slower than single chunks.
	maxCoalesced = 1 << 20
	// maxWaitingWrites bounds the writes that wait for neighbours.
	maxWaitingWrites = 256
	// coalesceLookBack is how many of the newest writes a chunk is compared with. It matters if several files with the
	// same content are restored from one frame.
	coalesceLookBack = 8
)

// writeCoalescer merges chunks that are neighbours both in a file and in the frame, so that one write stores them.
// Backups fill frames in reading order, so most of a large file is written with the maximum length. The zero value is
// empty.
type writeCoalescer struct{ writes []coalescedWrite }

// add appends n bytes at from of the frame, which belong at off of the file, to a neighbour or starts a new write.
// False: there are too many writes; drain them first.
func (c *writeCoalescer) add(f *file, off, from, n uint64) bool {
	for i := len(c.writes) - 1; i >= max(0, len(c.writes)-coalesceLookBack); i-- {
		w := &c.writes[i]
		if w.file == f && w.to-w.from < maxCoalesced && w.to == from && w.off+(w.to-w.from) == off {
			w.to += n
			w.chunks++
			return true
		}
	}
	if len(c.writes) == maxWaitingWrites {
		return false
	}
	c.writes = append(c.writes, coalescedWrite{file: f, off: off, from: from, to: from + n, chunks: 1})
	return true
}

// drain yields all writes, in ascending order for each file, and empties the coalescer.
func (c *writeCoalescer) drain(yield func(*coalescedWrite)) {
	slices.SortStableFunc(c.writes, func(a, b coalescedWrite) int { return cmp.Compare(a.off, b.off) })
	for i := range c.writes {
		yield(&c.writes[i])
	}
	clear(c.writes)
	c.writes = c.writes[:0]
}
