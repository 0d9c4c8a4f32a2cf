// Package census is an index of blob IDs for one run of the program: it is filled first, and asked afterwards.
//
// Records are gathered in memory and written as a sorted stretch of a file whenever there are many; the first question
// merges the stretches into one list, from front to back. Of several records of one ID the last that came counts. All
// records take the same room, so that the list is blocks of a page, and of each block the first bytes of the first ID are
// kept in memory: a tenth of a byte for each blob. A question reads one page, and nothing of the file is mapped: what was
// looked at is the system's to keep and not a part of this process. Beside package runs, whose index grows as it is asked,
// filling takes a third of the time.
//
// It refuses to know what a place means.
package census

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/hashcache/runs"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// recordSize is an ID and five numbers of 32 bits.
	recordSize = format.IDSize + 5*4
	// blockSize is what a question reads.
	blockSize = 4096
	perBlock  = blockSize / recordSize
	// stretchRecords is how many records are sorted in memory: 4 MiB with their order.
	stretchRecords = 64 << 10
	writeBuffer    = 256 << 10
	// mergeBuffers is shared by the stretches while they are merged, in bytes; each has at least mergeLeast.
	mergeBuffers = 8 << 20
	mergeMost    = 256 << 10
	mergeLeast   = 4 << 10
)

var errFull = errors.New("a blob index that was asked takes no more")

// File is where an Index lies.
type File interface {
	io.ReaderAt
	io.WriterAt
}

// Index is the index. Add is for one goroutine and comes before all questions; questions are safe for concurrent use.
type Index struct {
	file    File
	end     int64 // of what was written
	records []runs.Record
	order   []place
	added   uint64
	stretch []stretch
	most    int // records of a stretch: stretchRecords, which tests make smaller

	once    sync.Once // the first question
	asked   bool
	err     error    // of it
	base    int64    // of the list in the file
	count   int      // records in it
	fences  []uint64 // first bytes of the first ID of each block
	scratch sync.Pool
}

// stretch is a part of the file.
type stretch struct {
	off int64
	n   int // records
}

// New returns an empty index in an empty file.
func New(f File) *Index {
	x := &Index{file: f, most: stretchRecords}
	x.scratch.New = func() any { return new(question) }
	return x
}

// Append writes bytes of the caller's own into the file, and returns where they are.
func (x *Index) Append(p []byte) (off int64, err error) {
	off = x.end
	if _, err = x.file.WriteAt(p, off); err == nil {
		x.end += int64(len(p))
	}
	return off, err
}

// Add takes a record.
func (x *Index) Add(r *runs.Record) error {
	if x.asked {
		return errFull
	}
	x.added++
	if x.records = append(x.records, *r); len(x.records) < x.most {
		return nil
	}
	return x.flush()
}

// place is where a record stands, with the first bytes of its ID.
type place struct {
	head uint64
	at   uint32
}

func headOf(id []byte) uint64 { return binary.BigEndian.Uint64(id) }

// flush writes a stretch. Only places are moved, as package runs does it and for the same reason.
func (x *Index) flush() error {
	if len(x.records) == 0 {
		return nil
	}
	order := x.order[:0]
	for i := range x.records {
		order = append(order, place{headOf(x.records[i].ID[:]), uint32(i)})
	}
	x.order = order
	slices.SortFunc(order, func(a, b place) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(x.records[a.at].ID.Compare(x.records[b.at].ID), cmp.Compare(a.at, b.at))
	})
	s := stretch{off: x.end}
	w := bufio.NewWriterSize(io.NewOffsetWriter(x.file, s.off), writeBuffer)
	var room [recordSize]byte
	for i, o := range order {
		r := &x.records[o.at]
		if i+1 < len(order) && order[i+1].head == o.head && x.records[order[i+1].at].ID == r.ID {
			continue // of equals, the last
		}
		_, _ = w.Write(encode(&room, r)) // bufio keeps the first error, and Flush returns it
		s.n++
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write blob index: %w", err)
	}
	x.end += int64(s.n) * recordSize
	x.stretch, x.records = append(x.stretch, s), x.records[:0]
	return nil
}

func encode(room *[recordSize]byte, r *runs.Record) []byte {
	copy(room[:], r.ID[:])
	at := room[format.IDSize:]
	for i, n := range [...]uint32{r.Loc.Pack, r.Loc.Offset, r.Loc.Sealed, r.Loc.Skip, r.Loc.Len} {
		binary.LittleEndian.PutUint32(at[4*i:], n)
	}
	return room[:]
}

func decode(p []byte) runs.Loc {
	n := func(i int) uint32 { return binary.LittleEndian.Uint32(p[format.IDSize+4*i:]) }
	return runs.Loc{Pack: n(0), Offset: n(1), Sealed: n(2), Skip: n(3), Len: n(4)}
}

// Replaced returns how many records do not count, because a later one has the same ID. It ends the filling, as a question.
func (x *Index) Replaced() (uint64, error) {
	if err := x.settle(); err != nil {
		return 0, err
	}
	return x.added - uint64(x.count), nil
}

// settle makes one list of all stretches, once.
func (x *Index) settle() error {
	x.once.Do(func() {
		x.asked = true
		if x.err = x.flush(); x.err == nil {
			x.records, x.order = nil, nil
			x.err = x.merge()
		}
	})
	return x.err
}
